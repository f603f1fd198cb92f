"""An HTTP server on a real socket that answers each request as its test says: right, wrong, half or never."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import BinaryIO

import numpy as np

from tests.triton_models.publishing_aws import record_of
from triton_models.repository.manifest import Manifest, Publication

_HANG_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A received request; header names are in lower case."""

    line: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The server's reaction to a request.

    Attributes:
        sends: The bytes that it sends.
        byte_by_byte: True if it sends that one byte at a time, for ever: the last one again and again.
        hangs: True if it then waits until the test is over.
        closes: True if it then closes the connection.
    """

    sends: bytes = b""
    byte_by_byte: bool = False
    hangs: bool = False
    closes: bool = False


def reply(status: int, body: bytes, **headers: str) -> Step:
    """An HTTP response; of a header's name the underscores are dashes."""
    lines = [f"HTTP/1.1 {status} Reason", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return Step(sends="\r\n".join([*lines, "", ""]).encode() + body)


def error(status: int, code: str, message: str = "no", **members: object) -> Step:
    """An error as AWS answers it."""
    body = json.dumps({"Message": message, **members}).encode()
    return reply(status, body, Content_Type="application/json", x_amzn_errortype=code)


def answer(value: float = 3.0) -> Step:
    """An answer of Triton with one output, Y, in JSON."""
    output = {"name": "Y", "datatype": "FP32", "shape": [1], "data": [value]}
    return reply(200, json.dumps({"outputs": [output]}).encode(), Content_Type="application/json")


def manifest(**models: str) -> Step:
    """An answer of S3 with the manifest of a repository."""
    written = Manifest()
    for model, artifact in models.items():
        wanted = [Publication(model=model, artifact=artifact, record=record_of(artifact))]
        written = written.with_published(wanted, at=datetime.now(timezone.utc), by="ann")
    body = written.to_json().encode()
    return reply(200, body, ETag='"1"', Content_Type="application/json")


def parameter(value: str) -> Step:
    """An answer of Systems Manager with a parameter's value."""
    return reply(200, json.dumps({"Parameter": {"Value": value}}).encode(), Content_Type="application/json")


def cut_short(step: Step, *, by: int) -> Step:
    """The same without its last bytes; then the connection ends."""
    return Step(sends=step.sends[:-by], closes=True)


CUT = Step(closes=True)
HANG = Step(hangs=True)
TRICKLE = Step(sends=b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\nx", byte_by_byte=True)
NOT_HTTP = Step(sends=b"\x00\x15nothing that HTTP knows\r\n\r\n", closes=True)
ROW = {"X": np.array([[1.0]], dtype=np.float32)}


class ScriptedServer:
    """Listens on the loopback interface; each connection has its own thread.

    Attributes:
        url: Its address.
        requests: The requests, in order.
        steps: Its reactions to the next requests.
        otherwise: Its reaction to those after them.
    """

    def __init__(self, otherwise: Step | Callable[[Request], Step]) -> None:
        self.otherwise = otherwise
        self.steps: list[Step] = []
        self.requests: list[Request] = []
        self._asked = threading.Condition()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def wait_until_asked(self, times: int) -> None:
        """Return when that many requests have arrived."""
        with self._asked:
            assert self._asked.wait_for(lambda: len(self.requests) >= times, timeout=30), self.requests

    def let_go(self) -> None:
        """End all that hangs."""
        self._over.set()

    def __enter__(self) -> ScriptedServer:
        self._begin(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _begin(self, target: Callable[..., None], *args: object) -> None:
        threading.Thread(target=target, args=args, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                self._begin(self._serve, self._socket.accept()[0])

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream, suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (request := _read(stream)) is not None:
                if not self._do(connection, self._next(request)):
                    connection.shutdown(socket.SHUT_RDWR)
                    return

    def _next(self, request: Request) -> Step:
        with self._asked:
            self.requests.append(request)
            self._asked.notify_all()
            if self.steps:
                return self.steps.pop(0)
        return self.otherwise(request) if callable(self.otherwise) else self.otherwise

    def _do(self, connection: socket.socket, step: Step) -> bool:
        """Take a step; whether the connection goes on."""
        if step.byte_by_byte:
            at = 0
            while not self._over.wait(0.02):
                connection.sendall(step.sends[at : at + 1])
                at = min(at + 1, len(step.sends) - 1)
            return False
        connection.sendall(step.sends)
        if step.hangs:
            self._over.wait(_HANG_LIMIT_S)
            return False
        return not step.closes


def _read(stream: BinaryIO) -> Request | None:
    line = stream.readline().decode().strip()
    if not line:
        return None
    headers = {}
    while header := stream.readline().decode().strip():
        name, _, value = header.partition(":")
        headers[name.lower()] = value.strip()
    return Request(line=line, headers=headers, body=stream.read(int(headers.get("content-length", 0))))
