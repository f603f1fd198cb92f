"""A response is complete, however it arrives, or an error."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_models.client.wire import Reading, Route

CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n"
)
WHOLE = {
    "with a length": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde", 200, True),
    "in chunks": (CHUNKED, 200, True),
    "after an interim one": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde",
        200,
        True,
    ),
    "and no more": (b"HTTP/1.1 400 Bad\r\nConnection: close\r\nContent-Length: 5\r\n\r\nabcde", 400, False),
    "of a server that fails": (b"HTTP/1.1 500 Bad\r\nContent-Length: 5\r\n\r\nabcde", 500, False),
    "of an old server": (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nabcde", 200, False),
}
ENDLESS = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nabcde"


def read(parts: list[bytes]) -> Reading:
    reading = Reading()
    for part in parts:
        left = part
        while left and reading.response is None:
            space = reading.space
            count = min(len(space), len(left))
            space[:count] = left[:count]
            reading.filled(count)
            left = left[count:]
    return reading


def cut(data: st.DataObject, text: bytes) -> list[bytes]:
    at = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    return [text[start:end] for start, end in zip([0, *at], [*at, len(text)], strict=True)]


@pytest.mark.parametrize("kind", WHOLE)
@given(data=st.data())
def test_a_response_is_read_however_it_is_cut(kind: str, data: st.DataObject) -> None:
    text, status, keeps = WHOLE[kind]
    reading = read(cut(data, text))
    assert reading.response is not None
    assert (bytes(reading.response.body), reading.response.status, reading.keeps) == (b"abcde", status, keeps)


@given(data=st.data())
def test_a_response_without_a_length_ends_with_its_connection(data: st.DataObject) -> None:
    reading = read(cut(data, ENDLESS))
    assert reading.response is None
    reading.ended()
    assert reading.response is not None
    assert (bytes(reading.response.body), reading.keeps) == (b"abcde", False)


@pytest.mark.parametrize("kind", WHOLE)
@given(data=st.data())
def test_a_response_that_ends_early_is_an_error(kind: str, data: st.DataObject) -> None:
    text = WHOLE[kind][0]
    reading = read([text[: data.draw(st.integers(0, len(text) - 1))]])
    with pytest.raises(ConnectionError):
        reading.ended()


@pytest.mark.parametrize(
    "text",
    [
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20_000,
    ],
)
def test_what_is_not_http_is_an_error(text: bytes) -> None:
    with pytest.raises(ConnectionError, match="not HTTP"):
        read([text])


def test_a_header_of_several_lines_is_never_sent() -> None:
    with pytest.raises(ValueError, match="several lines"):
        Route(server=urlsplit("http://server")).head("/", {"X": "a\r\nY: b"})
