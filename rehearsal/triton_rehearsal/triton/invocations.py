"""Invocations of loaded models from an event loop, over connections that stay open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import httptools

from triton_rehearsal.triton.contract import INVOCATION_LIMIT_S, TIMED_OUT, Answer


class Invocations:
    """Invokes the models of one container. All calls come from one event loop."""

    def __init__(self, server: Path) -> None:
        self._server = server
        self._idle: list[_Connection] = []

    async def invoke(self, path: str, *, body: bytes, headers: Mapping[str, str]) -> tuple[Answer, float]:
        """Invoke the loaded model at a path. Returns the answer, of status 0 without one, and the seconds."""
        started = time.monotonic()
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
        try:
            connection = self._idle.pop() if self._idle else await self._connect()
            answer = await connection.send(head.encode(), body)
        except OSError as error:
            answer = Answer(status=0, body=str(error).encode())
        return answer, time.monotonic() - started

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_unix_connection(lambda: _Connection(self._idle), str(self._server))
        return connection


class _Connection(asyncio.Protocol):
    """A connection with at most one request in progress."""

    def __init__(self, idle: list[_Connection]) -> None:
        self._idle = idle
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[Answer] | None = None

    def send(self, head: bytes, body: bytes) -> asyncio.Future[Answer]:
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._answer = self._loop.create_future()
        self._timer = self._loop.call_later(INVOCATION_LIMIT_S, self._end, TIMED_OUT)
        self._transport.writelines([head, body])
        return self._answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._end(f"the container's answer cannot be read: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        if self in self._idle:
            self._idle.remove(self)
        self._end(str(error or "the container closed the connection"))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, part: bytes) -> None:
        self._body.append(part)

    def on_message_complete(self) -> None:
        if self._answer is None:
            self._transport.abort()  # an answer without a request
            return
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        if self._parser.should_keep_alive():
            self._idle.append(self)
        else:
            self._transport.abort()
        self._finish(Answer(status=self._parser.get_status_code(), body=body, headers=self._headers))

    def _end(self, reason: str) -> None:
        self._transport.abort()
        if self._answer is not None:
            self._finish(Answer(status=0, body=reason.encode()))

    def _finish(self, answer: Answer) -> None:
        waiting, self._answer = self._answer, None
        self._timer.cancel()
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)
