"""A proxy before an S3 endpoint that does one thing wrong, at the request that a test names."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

Fault = Literal["cut", "lost", "half", "slow down"]
"""What goes wrong with a request.

cut: the connection ends in the middle of the request's body; the server never hears of it.
lost: the server does what it is asked, and the connection ends before it answers.
half: the same, in the middle of the answer's body.
slow down: 503, as S3 answers a client that asks too often.
"""

FAULTS: tuple[Fault, ...] = ("cut", "lost", "half", "slow down")

_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_PER_CONNECTION = frozenset({"connection", "transfer-encoding", "keep-alive"})


@dataclass(frozen=True)
class Request:
    """A request: its number from 1, and what it asks for, such as "PUT manifest.json"."""

    number: int
    what: str


class FaultyS3:
    def __init__(self, upstream: str) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.proxy = self  # type: ignore[attr-defined]
        self.upstream = urlsplit(upstream).netloc
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._changed = threading.Condition()
        self._under_way: list[Request] = []
        self.expect()

    def expect(
        self,
        faults: dict[int, Fault] | None = None,
        *,
        before: Callable[[Request], None] = lambda request: None,
        after: Callable[[Request], None] = lambda request: None,
    ) -> None:
        """Forget what was asked, and say what is to happen from now on."""
        self.requests: list[str] = []
        self.faults, self.before, self.after = faults or {}, before, after

    def wait_until_quiet(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: not self._under_way, timeout=30), self._under_way

    def begin(self, what: str) -> Request:
        with self._changed:
            self.requests.append(what)
            self._under_way.append(Request(len(self.requests), what))
            return self._under_way[-1]

    def end(self, request: Request) -> None:
        with self._changed:
            self._under_way.remove(request)
            self._changed.notify_all()

    def __enter__(self) -> FaultyS3:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _pass_on(self) -> None:
        proxy: FaultyS3 = self.server.proxy  # type: ignore[attr-defined]
        request = proxy.begin(_described(self.command, self.path))
        try:
            self._do(proxy, request)
        except (TimeoutError, ConnectionError):
            self.close_connection = True  # the client is gone
        finally:
            proxy.end(request)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass_on  # noqa: N815

    def _do(self, proxy: FaultyS3, request: Request) -> None:
        fault = proxy.faults.get(request.number)
        length = int(self.headers.get("Content-Length") or 0)
        if fault == "cut":
            self.rfile.read(length // 2)
            return self._hang_up()
        body = self.rfile.read(length)
        if len(body) < length:
            return self._hang_up()  # the client was killed while it sent
        proxy.before(request)
        if fault == "slow down":
            return self._answer(503, {"Content-Type": "application/xml"}, _SLOW_DOWN)
        status, headers, content = self._ask(proxy, body)
        proxy.after(request)
        if fault == "lost":
            return self._hang_up()
        if fault == "half":
            self._answer(status, headers, content, upto=len(content) // 2)
            return self._hang_up()
        return self._answer(status, headers, content)

    def _ask(self, proxy: FaultyS3, body: bytes) -> tuple[int, dict[str, str], bytes]:
        with _connection(proxy.upstream) as connection:
            kept = {key: value for key, value in self.headers.items() if key.lower() != "expect"}
            connection.request(self.command, self.path, body or None, kept)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()

    def _answer(
        self, status: int, headers: dict[str, str], content: bytes, *, upto: int | None = None
    ) -> None:
        self.send_response_only(status)
        for key, value in headers.items():
            if key.lower() not in _PER_CONNECTION | {"content-length"}:
                self.send_header(key, value)
        self.send_header("Content-Length", headers.get("Content-Length", str(len(content))))
        self.end_headers()
        self.wfile.write(content[:upto])

    def _hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):  # it may be gone
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def _connection(netloc: str) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(netloc, timeout=60)
    try:
        yield connection
    finally:
        connection.close()


def _described(method: str, target: str) -> str:
    parsed = urlsplit(target)
    name = parsed.path.rpartition("/")[2]
    sub = next((word for word in ("uploads", "uploadId", "delete") if word in parsed.query), "")
    return " ".join(part for part in (method, name, sub) if part)
