"""The HTTP of the runtime API: connections, limits and requests that no SDK sends."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import Iterator

import pytest

from triton_models.facts.limits import PAYLOAD_LIMIT
from triton_rehearsal.hosting.runtime_api import Gateway, Reply, Request

LIMIT_S = 60.0
PATH = "/endpoints/search/invocations"
CLOSE = "Connection: close\r\n"


class Echo:
    """Answers with the body of the request; slowly or not at all, if a header says so."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def answer(self, request: Request) -> Reply:
        self.bodies.append(request.body)
        if "slow" in request.headers:
            await asyncio.sleep(0.1)
        if "broken" in request.headers:
            raise RuntimeError
        return Reply(status=200, body=request.body, headers={"Endpoint": request.endpoint})


@pytest.fixture(scope="module")
def echo() -> Echo:
    return Echo()


@pytest.fixture(scope="module")
def gateway(echo: Echo) -> Iterator[Gateway]:
    opened = Gateway(echo.answer)
    opened.start()
    yield opened
    opened.close()


@pytest.fixture
def client(gateway: Gateway) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("localhost", gateway.port, timeout=LIMIT_S)
    yield connection
    connection.close()


def raw(gateway: Gateway, *sent: bytes) -> bytes:
    """Return all that comes back until the gateway closes the connection."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=LIMIT_S) as connection:
        for part in sent:
            connection.sendall(part)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def request(body: bytes = b"", *, method: str = "POST", headers: str = "") -> bytes:
    head = f"{method} {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


def status(answer: bytes) -> int:
    return int(answer.split()[1])


@pytest.mark.parametrize("size", [0, 100_096, PAYLOAD_LIMIT])
def test_a_body_of_any_size_arrives_whole_and_its_connection_is_used_again(
    client: http.client.HTTPConnection, size: int
) -> None:
    body = bytes(range(256)) * (size // 256)
    for _ in range(2):
        client.request("POST", PATH, body=body)
        sent_from = client.sock
        assert client.getresponse().read() == body
        assert client.sock is sent_from


def test_the_name_of_an_endpoint_is_decoded(client: http.client.HTTPConnection) -> None:
    client.request("POST", "/endpoints/a%2Db/invocations", body=b"")
    assert client.getresponse().headers["Endpoint"] == "a-b"


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (request(method="PATCH", headers=CLOSE), 501),
        (request().replace(b"Content-Length: 0\r\n", b""), 400),
        (request(b"1\r\na\r\n0\r\n\r\n").replace(b"Content-Length: 11", b"Transfer-Encoding: chunked"), 400),
        (request(b"a", headers=CLOSE).replace(b"Host: localhost", b"Host: evil.example"), 403),
        (request(headers=f"Origin: https://evil.example\r\n{CLOSE}"), 403),
    ],
    ids=["method", "no length", "chunks", "host", "page"],
)
def test_a_request_that_is_not_of_the_api_is_refused(gateway: Gateway, sent: bytes, expected: int) -> None:
    answer = raw(gateway, sent)
    assert status(answer) == expected
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["Message"]


@pytest.mark.parametrize(
    "sent",
    [
        *(b"nonsense\r\n\r\n", b"POST / HTTP/9.9\r\n\r\n", b"POST / HTTP/1.1\r\na b\r\n\r\n"),
        request().replace(b"Length: 0", "Length: ²".encode()),
    ],
)
def test_what_is_not_http_is_refused(gateway: Gateway, sent: bytes) -> None:
    assert status(raw(gateway, sent)) == 400


def test_a_body_that_is_too_large_is_read_and_refused(client: http.client.HTTPConnection) -> None:
    client.request("POST", PATH, body=bytes(PAYLOAD_LIMIT + 1))
    answer = client.getresponse()
    assert (answer.status, answer.read()) == (413, b"HTTP content length exceeded 6291456 bytes.")
    client.request("POST", PATH, body=b"next")
    assert client.getresponse().read() == b"next"


def test_a_body_that_was_cut_reaches_no_model(
    gateway: Gateway, client: http.client.HTTPConnection, echo: Echo
) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=LIMIT_S) as connection:
        connection.sendall(request(b"cut off")[:-1])
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1 << 10) == b""
    client.request("POST", PATH, body=b"next")
    assert client.getresponse().read() == b"next"
    assert b"cut of" not in echo.bodies


def test_a_failure_of_the_hosting_and_an_unknown_path_are_answers_of_the_api(
    client: http.client.HTTPConnection,
) -> None:
    client.request("POST", PATH, body=b"", headers={"Broken": "yes"})
    answer = client.getresponse()
    assert (answer.status, answer.headers["x-amzn-errortype"]) == (500, "InternalFailure")
    assert b"its log" in answer.read()
    client.request("GET", "/endpoints/search", body=b"")
    answer = client.getresponse()
    assert (answer.status, answer.headers["x-amzn-errortype"]) == (404, "UnknownOperationException")


def test_a_client_that_waits_for_leave_to_send_gets_it(gateway: Gateway) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=LIMIT_S) as connection:
        head, _, _ = request(b"body", headers=f"Expect: 100-continue\r\n{CLOSE}").partition(b"body")
        connection.sendall(head)
        assert connection.recv(1 << 10) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"body")
        assert b"".join(iter(lambda: connection.recv(1 << 10), b"")).endswith(b"\r\n\r\nbody")
