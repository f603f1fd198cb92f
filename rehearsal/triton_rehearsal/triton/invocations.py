"""Invocations of loaded models from an event loop, over connections that stay open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import httptools

from triton_rehearsal.triton.contract import INVOCATION_LIMIT_S, TIMED_OUT, Answer
from triton_rehearsal.triton.large_body import WORTH, LargeBody

# A longer request is written in parts, without a copy.
_ONE_PACKET = 1 << 16

Done = Callable[[Answer, float], None]
"""Called with the answer, whose status is 0 without one, and the seconds until then."""


class Invocations:
    """Invokes the models of one container. All calls come from one event loop.

    Callbacks, not coroutines: a task per request costs as much as the rest of a small request here.

    Args:
        server: The Unix socket of the container.
    """

    def __init__(self, server: Path) -> None:
        self._server = server
        self._idle: list[_Connection] = []
        self._connecting: set[asyncio.Task[None]] = set()

    def invoke(
        self, path: str, *, body: Sequence[bytes | bytearray], headers: Mapping[str, str], done: Done
    ) -> None:
        """Invoke a loaded model.

        Args:
            path: The model's path.
            body: The parts of the body.
            headers: The headers to pass on.
            done: Called on the loop; never before this returns.
        """
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Length: {sum(map(len, body))}\r\n\r\n"
        ).encode()
        if self._idle:
            self._idle.pop().send([head, *body], done)
            return
        connecting = asyncio.get_running_loop().create_task(self._connect([head, *body], done))
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)

    async def _connect(self, request: list[bytes | bytearray], done: Done) -> None:
        started = time.monotonic()
        try:
            _, connection = await asyncio.get_running_loop().create_unix_connection(
                lambda: _Connection(self._idle), str(self._server)
            )
        except OSError as error:
            done(Answer(status=0, body=str(error).encode()), time.monotonic() - started)
            return
        connection.send(request, done)


class _Connection(asyncio.Protocol):
    """A connection with at most one request in progress.

    Args:
        idle: The connections without one.
    """

    def __init__(self, idle: list[_Connection]) -> None:
        self._idle = idle
        self._done: Done | None = None
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._length = self._received = 0  # of the answer's body

    def send(self, request: list[bytes | bytearray], done: Done) -> None:
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._done = done
        self._started = time.monotonic()
        if sum(map(len, request)) <= _ONE_PACKET:
            self._transport.write(b"".join(request))
        else:
            self._transport.writelines(request)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._timer = self._loop.call_later(INVOCATION_LIMIT_S, self._check_limit)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._end(f"the container's answer cannot be read: {error}")
        else:
            if self._length - self._received >= WORTH and self._done is not None:
                LargeBody(
                    self._transport, self, parts=self._body, length=self._length, done=self._complete_large
                )

    def connection_lost(self, error: Exception | None) -> None:
        self._timer.cancel()
        if self in self._idle:
            self._idle.remove(self)
        self._end(str(error or "the container closed the connection"))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._length = int(self._headers.get("content-length", 0))

    def on_body(self, part: bytes) -> None:
        self._body.append(part)
        self._received += len(part)

    def on_message_complete(self) -> None:
        self._complete(self._parser, b"".join(self._body))

    def _complete_large(self, body: bytearray) -> None:
        parser, self._parser = self._parser, httptools.HttpResponseParser(self)
        # It does not change from here on, and a copy takes as long as all else.
        self._complete(parser, cast("bytes", body))

    def _complete(self, parser: httptools.HttpResponseParser, body: bytes) -> None:
        self._length = self._received = 0
        if self._done is None:
            self._transport.abort()  # an answer without a request
            return
        answer = Answer(status=parser.get_status_code(), body=body, headers=self._headers)
        if parser.should_keep_alive() and not self._transport.get_write_buffer_size():
            self._idle.append(self)
        else:
            self._transport.abort()
        self._finish(answer)

    def _check_limit(self) -> None:
        """Give up a request that takes too long. A timer per connection costs less than one per request."""
        left = INVOCATION_LIMIT_S
        if self._done is not None:
            left += self._started - time.monotonic()
        if left <= 0:
            self._end(TIMED_OUT)
        else:
            self._timer = self._loop.call_later(left, self._check_limit)

    def _end(self, reason: str) -> None:
        """Close the connection, and the request in progress with it."""
        self._transport.abort()
        if self._done is not None:
            self._finish(Answer(status=0, body=reason.encode()))

    def _finish(self, answer: Answer) -> None:
        done, self._done = cast("Done", self._done), None
        done(answer, time.monotonic() - self._started)
