"""Connections of an event loop to one HTTP server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import cast

from triton_models.base.encoding import Buffer
from triton_models.client.wire import CONNECT_TIMEOUT_S, IDLE_S, SMALL, Reading, Response, Route, check_tunnel

# The most requests at a time; others wait. A process often has 1,024 descriptors.
_CONNECTIONS = 256

# The most bytes that are given to a connection at a time.
_AT_ONCE = 1 << 20


class Connections:
    """Connections of the running event loop that are kept for the next request.

    Attributes:
        busy: The number of requests that are on their way or wait for a connection.
    """

    def __init__(self, route: Route, *, at_once: int = _CONNECTIONS) -> None:
        self.busy = 0
        self._route = route
        self._idle: list[_Connection] = []
        self._free = asyncio.Semaphore(at_once)

    async def send(
        self, path: str, headers: Mapping[str, str], body: Sequence[Buffer], *, method: str = "POST"
    ) -> Response:
        """Send a request, and return the response.

        Raises:
            OSError: There is no connection, or it ended early.
        """
        head = self._route.head(path, headers, method=method)
        self.busy += 1
        try:
            async with self._free:
                connection = self._kept() or await self._connected()
                try:
                    response = await connection.exchange([head, *body])
                except BaseException:  # also if it is cancelled: no one reads the rest of the response
                    connection.abort()
                    raise
                if connection.keeps:
                    connection.idle_since = time.monotonic()
                    self._idle.append(connection)
                else:
                    connection.abort()
                return response
        finally:
            self.busy -= 1

    def close(self) -> None:
        """Close all connections that are not in use."""
        while self._idle:
            self._idle.pop().abort()

    def _kept(self) -> _Connection | None:
        """Return the connection used last, unless it has ended; close those that have been idle for long."""
        oldest = time.monotonic() - IDLE_S
        while self._idle and self._idle[0].idle_since < oldest:
            self._idle.pop(0).abort()
        while self._idle:
            connection = self._idle.pop()
            if not connection.ended:
                return connection
        return None

    async def _connected(self) -> _Connection:
        try:
            return await asyncio.wait_for(self._connect(), CONNECT_TIMEOUT_S)
        except (asyncio.TimeoutError, TimeoutError) as error:
            host = self._route.first[0]
            raise ConnectionError(f"no connection to {host} within {CONNECT_TIMEOUT_S:g} s") from error

    async def _connect(self) -> _Connection:
        loop, route = asyncio.get_running_loop(), self._route
        transport, connection = await loop.create_connection(_Connection, *route.first, ssl=route.first_tls)
        try:
            if route.tunnel is not None and route.tls is not None:
                check_tunnel(await connection.exchange([route.tunnel], tunnel=True))
                secured = await loop.start_tls(
                    transport, connection, route.tls, server_hostname=route.server.hostname
                )
                if secured is None:
                    raise ConnectionResetError("the proxy ended the connection")
                connection.connection_made(secured)
        except BaseException:
            connection.abort()
            raise
        return connection


class _Connection(asyncio.BufferedProtocol):
    """A connection, with one request at a time."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.ended = False
        self.keeps = False
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._reading = Reading()
        self._answer: asyncio.Future[Response] | None = None

    async def exchange(self, buffers: Sequence[Buffer], *, tunnel: bool = False) -> Response:
        """Send a request, and return its response."""
        if self.ended or self._transport is None:
            raise ConnectionResetError("the connection has ended")
        self._reading = Reading(tunnel=tunnel)
        self._answer = asyncio.get_running_loop().create_future()
        await self._write(buffers)
        return await self._answer

    async def _write(self, buffers: Sequence[Buffer]) -> None:
        """Write as much at a time as the connection takes: what it does not take at once, asyncio copies."""
        assert self._transport is not None  # noqa: S101  it was made
        for buffer in [b"".join(buffers)] if sum(map(len, buffers)) <= SMALL else buffers:
            for start in range(0, len(buffer), _AT_ONCE):
                self._transport.write(buffer[start : start + _AT_ONCE])
                await self._writable.wait()

    def abort(self) -> None:
        """End the connection at once."""
        self.ended = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is of no class of asyncio

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  asyncio's
        return self._reading.space

    def buffer_updated(self, nbytes: int) -> None:
        if self._answer is None or self._answer.done():
            self.abort()  # it was not asked for
            return
        try:
            self._reading.filled(nbytes)
        except ConnectionError as error:
            self._answer.set_exception(error)
            self.abort()
        self._settle()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        self._writable.set()
        if self._answer is None or self._answer.done():
            return
        try:
            if exc is not None:
                raise ConnectionResetError(str(exc) or type(exc).__name__)
            self._reading.ended()
        except ConnectionError as error:
            self._answer.set_exception(error)
        self._settle()

    def _settle(self) -> None:
        """Give the response to who waits for it, once it is complete."""
        if self._reading.response is not None and self._answer is not None and not self._answer.done():
            self.keeps = self._reading.keeps
            self._answer.set_result(self._reading.response)
