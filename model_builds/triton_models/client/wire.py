"""HTTP without input and output: the head of a request, and a response as it arrives in one buffer."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from ssl import SSLContext
from urllib.parse import SplitResult, unquote

from triton_models.base.encoding import Buffer

CONNECT_TIMEOUT_S = 5.0
"""The time limit for a connection, with its proxy and encryption, in seconds."""

SILENCE_S = 70.0
"""The time limit for a server that says nothing: SageMaker responds within 60 seconds, and recommends 70."""

IDLE_S = 20.0
"""The age of an unused connection that is not used again: a server closes it some time, at any moment."""

SMALL = 1 << 14
"""The bytes up to which a head and a body are sent together, which copies them."""

_HEAD_BYTES = 1 << 16
_PORTS = {"http": 80, "https": 443}
_OK, _ERROR, _SERVER_ERROR = 200, 300, 500
_INTERIM, _NO_BODY = range(100, 200), frozenset({204, 304})


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A complete response; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: Buffer | bytearray

    @property
    def failed(self) -> bool:
        """True if it is an error."""
        return self.status >= _ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How to reach a server.

    Attributes:
        tls: The context of encrypted connections; None for plain ones.
        proxy: The proxy, which is asked for a tunnel to servers with TLS, and to forward to others.
    """

    server: SplitResult
    tls: SSLContext | None = None
    proxy: SplitResult | None = None

    @property
    def first(self) -> tuple[str, int]:
        """The host and the port to connect to."""
        return _address(self.proxy or self.server)

    @property
    def first_tls(self) -> SSLContext | None:
        """The context of the connection to them; None for a plain one."""
        return None if self.proxy else self.tls

    @property
    def tunnel(self) -> bytes | None:
        """The request to the proxy for a tunnel; None without one."""
        if self.proxy is None or self.tls is None:
            return None
        host, port = _address(self.server)
        return _head("CONNECT", f"{host}:{port}", {"Host": f"{host}:{port}", **_authorization(self.proxy)})

    def head(self, path: str, headers: Mapping[str, str], *, method: str = "POST") -> bytes:
        """Return the head of a request.

        Raises:
            ValueError: A header cannot be sent.
        """
        host = {"Host": self.server.netloc}
        if self.proxy is not None and self.tls is None:
            target = f"{self.server.scheme}://{self.server.netloc}{path}"
            return _head(method, target, {**host, **headers, **_authorization(self.proxy)})
        return _head(method, path, {**host, **headers})


def check_tunnel(response: Response) -> None:
    """Refuse what a proxy says if it does not make a tunnel."""
    if response.status != _OK:
        raise ConnectionError(f"the proxy refuses a tunnel with status {response.status}")


def _address(url: SplitResult) -> tuple[str, int]:
    return str(url.hostname), url.port or _PORTS[url.scheme]


def _authorization(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    given = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {base64.b64encode(given).decode()}"}


def _head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a header has several lines")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


class Reading:
    """A response as it arrives: bytes go into its `space`, and `filled` says how many.

    Its methods raise ConnectionError if what arrives is not HTTP, or ends early.
    """

    def __init__(self, *, tunnel: bool = False) -> None:
        self.response: Response | None = None
        self.keeps = False
        """True if the connection can be used again after the response."""
        self._tunnel = tunnel
        self._text, self._scratch = bytearray(), memoryview(bytearray(_HEAD_BYTES))
        self._status, self._headers = 0, dict[str, str]()
        self._chunks: _Chunks | None = None
        self._body: memoryview | None = None
        self._at = 0

    @property
    def space(self) -> memoryview:
        """Where the next bytes go, which has room: the rest of the body, if its length is known."""
        if self._body is None or self.response is not None:
            return self._scratch
        return self._body[self._at :]

    def filled(self, count: int) -> None:
        """Take in bytes that are in `space`."""
        try:
            if self._body is not None:
                self._at += count
            elif self._chunks is not None:
                self._chunks.add(self._scratch[:count])
            else:
                self._text += self._scratch[:count]
                while not self._status and self._has_head():
                    pass
        except ValueError as error:
            raise ConnectionError(f"the answer is not HTTP: {error}") from error
        if self._chunks is not None and self._chunks.complete:
            self._complete(self._chunks.body)
        elif self._body is not None and self._at == len(self._body):
            self._complete(self._body)

    def ended(self) -> None:
        """Take in the end of the connection, which is the end of a response without a length."""
        if not self._status or self._chunks is not None or self._body is not None:
            raise ConnectionResetError("the connection ended before the answer did")
        if "content-type" not in self._headers:
            raise ConnectionResetError("the connection ended within the headers of the answer")
        self._complete(self._text)

    def _has_head(self) -> bool:
        """Read the head of the response, or of an interim one before it, if it is complete."""
        head, end, rest = self._text.partition(b"\r\n\r\n")
        if not end:
            if len(self._text) > _HEAD_BYTES:
                raise ValueError("its headers have no end")
            return False
        self._text = rest
        version, status, headers = _read_head(head.decode("latin-1"))
        if status in _INTERIM:
            return True
        self._status, self._headers = status, headers
        chunked, length = (
            headers.get("transfer-encoding", "").lower() == "chunked",
            headers.get("content-length"),
        )
        self.keeps = (
            version == "HTTP/1.1"
            and headers.get("connection", "").lower() != "close"
            and (chunked or length is not None)
            and status < _SERVER_ERROR
        )
        if status in _NO_BODY or (self._tunnel and status == _OK):
            self._body = _space(0)
        elif chunked:
            self._chunks = _Chunks()
            self._chunks.add(memoryview(self._text))
        elif length is not None:
            self._body = _space(int(length))
            self._at = min(len(self._text), len(self._body))
            self._body[: self._at] = self._text[: self._at]
        return True

    def _complete(self, body: Buffer | bytearray) -> None:
        self.response = Response(status=self._status, headers=self._headers, body=body)


def _space(size: int) -> memoryview:
    """Return memory for a body, which is not filled with zeros first."""
    import numpy as np

    return np.empty(size, np.uint8).data


def _read_head(head: str) -> tuple[str, int, dict[str, str]]:
    first, *lines = head.split("\r\n")
    version, _, rest = first.partition(" ")
    if version not in {"HTTP/1.1", "HTTP/1.0"}:
        raise ValueError(f"it begins with {first[:40]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError(f"a header is {line[:40]!r}")
        headers[name.strip().lower()] = value.strip()
    return version, int(rest[:3]), headers


class _Chunks:
    """A body in chunks, of which each has its length before it."""

    def __init__(self) -> None:
        self.body = bytearray()
        self.complete = False
        self._text = bytearray()
        self._left = 0  # of the chunk, with the end of its line
        self._last = False

    def add(self, data: memoryview) -> None:
        self._text += data
        while not self.complete:
            if len(self._text) < self._left:
                return
            if self._left:
                self.body += self._text[: self._left - 2]
                del self._text[: self._left]
                self._left = 0
            line, end, _ = self._text.partition(b"\r\n")
            if not end:
                return
            del self._text[: len(line) + 2]
            if self._last:  # the lines after the last chunk end with an empty one
                self.complete = not line
            else:
                size = int(line.partition(b";")[0], 16)
                self._left, self._last = (size + 2 if size else 0), not size
