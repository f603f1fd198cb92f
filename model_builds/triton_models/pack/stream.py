"""A gzip stream (RFC 1952) of one member, made on all cores, in memory that does not grow with its length.

Parts are deflated apart from each other, in any order; their checksums are combined, and their blocks written
and hashed in order. The bytes do not depend on how many cores there are.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, Protocol

from triton_models.pack import deflate
from triton_models.pack.content import Content
from triton_models.pack.crc import combine

# Small enough to stay in a core's cache between reading, summing, hashing and writing.
_PIECE_BYTES = 16 * deflate.STORED_BYTES

# More would wait for the hashing, which takes one core, and hold a piece in memory each.
_MAX_WORKERS = 16

_COMMENT = 0x10
_ANY_SYSTEM = 255

Blocks = bytes | bytearray


class Part(Protocol):
    """A stretch of what is to be compressed."""

    @property
    def size(self) -> int:
        """In bytes, uncompressed."""

    def deflated(self, crc: int, frames: Frames) -> tuple[Blocks, int]:
        """Its deflate blocks, and the CRC-32 of what came before and it."""


class Frames:
    """Stored blocks of the usual size, used again and again: fresh memory costs as much as reading."""

    def __init__(self) -> None:
        self._free: list[deflate.Stored] = []
        self._lent: dict[int, deflate.Stored] = {}

    def take(self, size: int) -> deflate.Stored:
        """Blocks for so many bytes."""
        if size != _PIECE_BYTES:
            return deflate.stored(size)
        try:
            frame = self._free.pop()
        except IndexError:
            frame = deflate.stored(size)
        self._lent[id(frame.blocks)] = frame
        return frame

    def give_back(self, blocks: Blocks) -> None:
        """These blocks are written and hashed."""
        frame = self._lent.pop(id(blocks), None)
        if frame is not None:
            self._free.append(frame)


@dataclass(frozen=True, slots=True)
class Header:
    """A few bytes, most of them zero."""

    data: bytes

    @property
    def size(self) -> int:
        """In bytes, uncompressed."""
        return len(self.data)

    def deflated(self, crc: int, frames: Frames) -> tuple[Blocks, int]:  # noqa: ARG002
        """As in `Part`."""
        return deflate.runs(self.data), zlib.crc32(self.data, crc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A stretch of a content, as it is or compressed."""

    content: Content
    offset: int
    size: int
    compress: bool

    def deflated(self, crc: int, frames: Frames) -> tuple[Blocks, int]:
        """As in `Part`."""
        if not self.compress:
            return self._stored(crc, frames)
        data = bytearray(self.size)
        self.content.fill([memoryview(data)], offset=self.offset)
        return deflate.compressed(data), zlib.crc32(data, crc)

    def _stored(self, crc: int, frames: Frames) -> tuple[Blocks, int]:
        blocks, places = frames.take(self.size)
        self.content.fill(places, offset=self.offset)
        for place in places:
            crc = zlib.crc32(place, crc)
        return blocks, crc


def stretches(content: Content, *, compress: bool) -> Iterator[Stretch]:
    """A content in stretches that are small enough for memory."""
    for offset in range(0, content.size, _PIECE_BYTES):
        size = min(_PIECE_BYTES, content.size - offset)
        yield Stretch(content=content, offset=offset, size=size, compress=compress)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What was written: its size in bytes and its SHA-256, hexadecimal."""

    size: int
    sha256: str


def write(parts: Iterable[Part], file: IO[bytes], *, comment: str = "") -> Written:
    """Write parts as a gzip stream.

    Args:
        parts: What is to be compressed, in order.
        file: Where to write.
        comment: For the stream's header; it must be Latin-1. None is written if it is empty.

    Raises:
        FleetError: A content cannot be read or has changed.
        OSError: The file cannot be written.
    """
    workers = min(os.cpu_count() or 1, _MAX_WORKERS)
    with ThreadPoolExecutor(workers) as pool, ThreadPoolExecutor(1) as hashing:
        frames = Frames()
        output = _Output(file, hashing, frames)
        output.put([_header(comment)])
        crc = size = 0
        for piece in _in_order(pool, _grouped(parts), frames, ahead=workers + 2):
            crc = combine(crc, piece.crc, piece.size)
            size += piece.size
            output.put(piece.blocks)
        output.put([deflate.LAST, crc.to_bytes(4, "little"), (size & 0xFFFFFFFF).to_bytes(4, "little")])
        return output.written()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Some parts, deflated."""

    blocks: Sequence[Blocks]
    size: int
    crc: int


class _Output:
    """Writes to a file, and hashes meanwhile."""

    def __init__(self, file: IO[bytes], pool: ThreadPoolExecutor, frames: Frames) -> None:
        self._file = file
        self._pool = pool
        self._frames = frames
        self._sha256 = hashlib.sha256()
        self._size = 0
        self._hashing: deque[tuple[Sequence[Blocks], Future[None]]] = deque()

    def put(self, blocks: Sequence[Blocks]) -> None:
        self._hashing.append((blocks, self._pool.submit(self._hash, blocks)))
        for block in blocks:
            self._file.write(block)
            self._size += len(block)
        while len(self._hashing) > 1:
            self._finish_one()

    def written(self) -> Written:
        while self._hashing:
            self._finish_one()
        return Written(size=self._size, sha256=self._sha256.hexdigest())

    def _hash(self, blocks: Sequence[Blocks]) -> None:
        for block in blocks:
            self._sha256.update(block)

    def _finish_one(self) -> None:
        blocks, hashed = self._hashing.popleft()
        hashed.result()
        for block in blocks:
            self._frames.give_back(block)


def _grouped(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """Parts, as many together as are worth a thread's turn."""
    group: list[Part] = []
    size = 0
    for part in parts:
        group.append(part)
        size += part.size
        if size >= _PIECE_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _in_order(
    pool: ThreadPoolExecutor, groups: Iterable[list[Part]], frames: Frames, *, ahead: int
) -> Iterator[_Piece]:
    """The groups deflated, of which only so many are in memory at a time."""
    waiting: deque[Future[_Piece]] = deque()
    for group in groups:
        waiting.append(pool.submit(_piece, group, frames))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _piece(parts: list[Part], frames: Frames) -> _Piece:
    blocks, crc = [], 0
    for part in parts:
        made, crc = part.deflated(crc, frames)
        blocks.append(made)
    return _Piece(blocks=blocks, size=sum(part.size for part in parts), crc=crc)


def _header(comment: str) -> bytes:
    """A member's header, which tells neither a time nor a name."""
    flags = _COMMENT if comment else 0
    start = bytes((0x1F, 0x8B, 8, flags, 0, 0, 0, 0, 0, _ANY_SYSTEM))
    return start + comment.encode("latin-1") + b"\0" if comment else start
