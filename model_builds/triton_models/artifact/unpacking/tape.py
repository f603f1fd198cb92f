"""The bytes of a tar archive from front to back: blocks, and contents of a known size."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

from triton_models.artifact.unpacking.refusals import RefusedError
from triton_models.base.errors import FleetError

BLOCK_BYTES = 512
_NOTHING = memoryview(b"")


class Tape:
    """A tar archive as it is read.

    Args:
        parts: The archive.
        failure: The error for whoever reads a content that cannot be read any further.
    """

    def __init__(self, parts: Iterator[bytes], failure: Callable[[RefusedError], FleetError]) -> None:
        self.failure = failure
        self._parts = parts
        self._part = _NOTHING

    def block(self) -> bytes:
        """The next block; empty at the end.

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
        """So many bytes.

        Raises:
            RefusedError: There are fewer.
        """
        return b"".join(self.pieces(size))

    def pieces(self, size: int) -> Iterator[memoryview]:
        """So many bytes, in pieces that are not copied.

        Raises:
            RefusedError: There are fewer.
        """
        while size:
            piece = self.piece(size)
            size -= len(piece)
            yield piece

    def piece(self, size: int) -> memoryview:
        """Up to so many bytes, at least one.

        Raises:
            RefusedError: The archive has ended.
        """
        if not self._part and not self._turn():
            raise RefusedError("archive-damaged", f"the archive ends {size} bytes early")
        piece, self._part = self._part[:size], self._part[size:]
        return piece

    def skip(self, size: int) -> None:
        """Pass over so many bytes.

        Raises:
            RefusedError: There are fewer.
        """
        for _ in self.pieces(size):
            pass

    def rest(self) -> Iterator[memoryview]:
        """All that is left, in pieces."""
        while self._part or self._turn():
            piece, self._part = self._part, _NOTHING
            yield piece

    def _turn(self) -> bool:
        part = next(self._parts, None)
        self._part = _NOTHING if part is None else memoryview(part)
        return part is not None


class Content(io.RawIOBase):
    """The content of a file in an archive, with FleetErrors for those who read it."""

    def __init__(self, tape: Tape, size: int) -> None:
        super().__init__()
        self._tape = tape
        self._left = size

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        """Fill a buffer as far as one piece goes."""
        if not self._left or not len(buffer):
            return 0
        piece = self._piece(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def beginning(self, size: int) -> bytes:
        """The next bytes, so many or all that are left."""
        pieces = []
        while size and self._left:
            piece = self._piece(size)
            size -= len(piece)
            pieces.append(piece)
        return b"".join(pieces)

    def pieces(self) -> Iterator[memoryview]:
        """All that is left, in pieces that are not copied."""
        while self._left:
            yield self._piece(self._left)

    def skip(self) -> None:
        """Pass over all that is left.

        Raises:
            RefusedError: The archive ends before.
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
