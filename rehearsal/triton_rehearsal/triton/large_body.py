"""The rest of a large HTTP body, read from the socket into its place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

# A shorter rest is not worth the change of protocols.
WORTH = 1 << 17


class LargeBody(asyncio.BufferedProtocol):
    """Reads a body, then gives the connection back. A parser would copy each part twice.

    Args:
        transport: The connection.
        owner: Its protocol before and after.
        parts: The beginning of the body.
        length: The length of the whole body in bytes.
        done: Called with the body.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        owner: asyncio.Protocol,
        *,
        parts: Sequence[bytes | bytearray],
        length: int,
        done: Callable[[bytearray], None],
    ) -> None:
        self._transport, self._owner, self._done = transport, owner, done
        self._body = bytearray(length)
        self._view = memoryview(self._body)
        self._filled = 0
        for part in parts:
            self._view[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
        transport.set_protocol(self)

    def get_buffer(self, _: int) -> memoryview:
        """Return the place of the next part."""
        return self._view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Note a part that was read."""
        self._filled += nbytes
        if self._filled == len(self._body):
            self._transport.set_protocol(self._owner)
            self._done(self._body)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the body to the owner."""
        self._owner.connection_lost(exc)
