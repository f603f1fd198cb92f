"""Invocations of loaded models from an event loop, each over a connection of its own: see `Contract`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import httptools

from triton_rehearsal.triton.contract import INVOCATION_LIMIT_S, TIMED_OUT, Answer


class Invocations:
    """Invokes the models of one container. All calls come from one event loop."""

    def __init__(self, server: Path) -> None:
        self._server = server

    async def invoke(self, path: str, *, body: bytes, headers: Mapping[str, str]) -> tuple[Answer, float]:
        """Invoke the loaded model at a path. Returns the answer, of status 0 without one, and the seconds."""
        started = time.monotonic()
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
        try:
            loop, request = asyncio.get_running_loop(), (head.encode(), body)
            _, connection = await loop.create_unix_connection(lambda: _Connection(request), str(self._server))
            answer = await connection.answer
        except OSError as error:
            answer = Answer(status=0, body=str(error).encode())
        return answer, time.monotonic() - started


class _Connection(asyncio.Protocol):
    """A connection for a request and its answer."""

    def __init__(self, request: Sequence[bytes]) -> None:
        loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Answer] = loop.create_future()
        self._request, self._parser = request, httptools.HttpResponseParser(self)
        self._timer = loop.call_later(INVOCATION_LIMIT_S, self._fail, TIMED_OUT)
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.writelines(self._request)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"the container's answer cannot be read: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(str(error or "the container closed the connection"))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, part: bytes) -> None:
        self._body.append(part)

    def on_message_complete(self) -> None:
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._end(Answer(status=self._parser.get_status_code(), body=body, headers=self._headers))

    def _fail(self, reason: str) -> None:
        self._end(Answer(status=0, body=reason.encode()))

    def _end(self, answer: Answer) -> None:
        self._timer.cancel()
        self._transport.abort()
        if not self.answer.done():
            self.answer.set_result(answer)
