"""Connections to one HTTP server for many threads, with one time limit for all of a request."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Mapping, Sequence

from triton_models.base.encoding import Buffer
from triton_models.client.call import HungError, within
from triton_models.client.deadline import Deadline
from triton_models.client.wire import (
    CONNECT_TIMEOUT_S,
    IDLE_S,
    SILENCE_S,
    SMALL,
    Reading,
    Response,
    Route,
    check_tunnel,
)

# The most threads that connect at a time: the look-up of a host may hang longer than its caller waits.
_CONNECTING = 64


class Sockets:
    """Connections that are kept for the next request; safe to use from many threads."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._connecting = threading.Semaphore(_CONNECTING)
        self._idle: list[tuple[float, socket.socket]] = []

    def send(
        self, path: str, headers: Mapping[str, str], body: Sequence[Buffer], *, deadline: Deadline
    ) -> Response:
        """Send a POST request, and return the response.

        Args:
            path: The path of the URL.
            headers: The headers, with Content-Length.
            body: The buffers of the body.
            deadline: The end of the call.

        Raises:
            OSError: There is no connection, or it ended early.
            HungError: The time is over.
        """
        if os.getpid() != self._process:  # those of the process that forked this one are its own
            self._begin()
        head = self._route.head(path, headers)
        connection = self._kept() or self._connected(deadline)
        try:
            reading = _exchanged(connection, [head, *body], deadline)
        except BaseException:
            connection.close()
            raise
        if reading.keeps:
            with self._lock:
                self._idle.append((time.monotonic(), connection))
        else:
            connection.close()
        return _whole(reading)

    def _kept(self) -> socket.socket | None:
        """Return the connection used last, unless it has ended; close those that have been idle for long."""
        oldest = time.monotonic() - IDLE_S
        while True:
            with self._lock:
                while self._idle and self._idle[0][0] < oldest:
                    self._idle.pop(0)[1].close()
                if not self._idle:
                    return None
                _, connection = self._idle.pop()
            if not _has_ended(connection):
                return connection
            connection.close()

    def _connected(self, deadline: Deadline) -> socket.socket:
        """Connect in a thread, because the look-up of a host has no time limit."""
        if not self._connecting.acquire(timeout=deadline.left_s):
            raise HungError

        def connect() -> socket.socket:
            try:
                return self._connect(deadline)
            finally:
                self._connecting.release()

        try:
            return within(min(deadline.left_s, CONNECT_TIMEOUT_S), connect)
        except HungError:
            if deadline.left_s:
                raise ConnectionError(
                    f"no connection to {self._route.first[0]} in {CONNECT_TIMEOUT_S} s"
                ) from None
            raise

    def _connect(self, deadline: Deadline) -> socket.socket:
        route = self._route
        connection = socket.create_connection(route.first, CONNECT_TIMEOUT_S)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if route.first_tls is not None:
                connection = route.first_tls.wrap_socket(connection, server_hostname=route.first[0])
            if route.tunnel is not None and route.tls is not None:
                check_tunnel(_whole(_exchanged(connection, [route.tunnel], deadline, tunnel=True)))
                connection = route.tls.wrap_socket(connection, server_hostname=route.server.hostname)
        except BaseException:
            connection.close()
            raise
        return connection


def _has_ended(connection: socket.socket) -> bool:
    """Return whether a connection has something to read, which can only be its end."""
    from urllib3.util import wait_for_read

    try:
        return wait_for_read(connection, timeout=0)
    except (OSError, ValueError):
        return True


def _exchanged(
    connection: socket.socket, buffers: list[Buffer], deadline: Deadline, *, tunnel: bool = False
) -> Reading:
    if sum(map(len, buffers)) <= SMALL:
        buffers = [b"".join(buffers)]
    reading = Reading(tunnel=tunnel)
    try:
        for buffer in buffers:
            connection.settimeout(_some(deadline))
            connection.sendall(buffer)
        while reading.response is None:
            connection.settimeout(_some(deadline))
            count = connection.recv_into(reading.space)
            reading.filled(count) if count else reading.ended()
    except TimeoutError:
        if deadline.left_s:
            raise ConnectionError(f"no answer within {SILENCE_S:g} s") from None
        raise HungError from None
    return reading


def _some(deadline: Deadline) -> float:
    """Return the time limit for the next bytes."""
    left = deadline.left_s
    if not left:
        raise HungError
    return min(left, SILENCE_S)


def _whole(reading: Reading) -> Response:
    assert reading.response is not None  # noqa: S101  it was read to its end
    return reading.response
