"""Sequential access to the bytes of a tar archive: blocks, and contents of a known size."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

from triton_models.artifact.unpacking.refusals import RefusedError
from triton_models.base.errors import FleetError

BLOCK_BYTES = 512
_NOTHING = memoryview(b"")


class Tape:
    """A tar archive that is being read.

    Args:
        parts: The bytes of the archive, in parts.
        failure: Returns the error that readers of truncated content get.
    """

    def __init__(self, parts: Iterator[bytes], failure: Callable[[RefusedError], FleetError]) -> None:
        self.failure = failure
        self._parts = parts
        self._part = _NOTHING

    def block(self) -> bytes:
        """Return the next block; empty at the end.

        Raises:
            RefusedError: The archive ends inside it.
        """
        if len(self._part) >= BLOCK_BYTES:
            block, self._part = self._part[:BLOCK_BYTES], self._part[BLOCK_BYTES:]
            return bytes(block)
        if not self._part and not self._turn():
            return b""
        return self.read(BLOCK_BYTES)

    def read(self, size: int) -> bytes:
        """Return `size` bytes.

        Raises:
            RefusedError: The archive has fewer.
        """
        return b"".join(self.pieces(size))

    def pieces(self, size: int) -> Iterator[memoryview]:
        """Yield `size` bytes in pieces, without copies.

        Raises:
            RefusedError: The archive has fewer.
        """
        while size:
            piece = self.piece(size)
            size -= len(piece)
            yield piece

    def piece(self, size: int) -> memoryview:
        """Return up to `size` bytes, at least one.

        Raises:
            RefusedError: The archive has ended.
        """
        if not self._part and not self._turn():
            raise RefusedError("archive-damaged", f"the archive ends {size} bytes early")
        piece, self._part = self._part[:size], self._part[size:]
        return piece

    def skip(self, size: int) -> None:
        """Skip `size` bytes.

        Raises:
            RefusedError: The archive has fewer.
        """
        for _ in self.pieces(size):
            pass

    def rest(self) -> Iterator[memoryview]:
        """Yield the remaining bytes in pieces."""
        while self._part or self._turn():
            piece, self._part = self._part, _NOTHING
            yield piece

    def _turn(self) -> bool:
        part = next(self._parts, None)
        self._part = _NOTHING if part is None else memoryview(part)
        return part is not None


class Content(io.RawIOBase):
    """The content of a file in an archive, which raises FleetError to its readers."""

    def __init__(self, tape: Tape, size: int) -> None:
        super().__init__()
        self._tape = tape
        self._left = size

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        """Fill a buffer from at most one piece."""
        if not self._left or not len(buffer):
            return 0
        piece = self._piece(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def beginning(self, size: int) -> bytes:
        """Return the next `size` bytes, or all remaining ones."""
        pieces = []
        while size and self._left:
            piece = self._piece(size)
            size -= len(piece)
            pieces.append(piece)
        return b"".join(pieces)

    def pieces(self) -> Iterator[memoryview]:
        """Yield the remaining bytes in pieces, without copies."""
        while self._left:
            yield self._piece(self._left)

    def skip(self) -> None:
        """Skip the remaining bytes.

        Raises:
            RefusedError: The archive ends early.
        """
        self._tape.skip(self._left)
        self._left = 0

    def _piece(self, size: int) -> memoryview:
        try:
            piece = self._tape.piece(min(size, self._left))
        except RefusedError as error:
            raise self._tape.failure(error) from None
        self._left -= len(piece)
        return piece
