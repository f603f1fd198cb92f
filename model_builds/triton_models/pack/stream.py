"""A gzip stream (RFC 1952) with one member, written on all cores with a fixed amount of memory.

Parts are read and deflated in any order, but written, hashed and summed in sequence. The bytes do not
depend on the number of cores.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO

from triton_models.pack import deflate
from triton_models.pack.content import Content

# Small enough to stay in a core's cache while it is read, summed, hashed and written.
_PIECE_BYTES = 16 * deflate.STORED_BYTES

# More groups would only wait for the hashing, which uses one core, and occupy memory.
_MAX_WORKERS = 16

_COMMENT = 0x10
_ANY_SYSTEM = 255

Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A section of a content, stored or compressed."""

    content: Content
    offset: int = 0
    size: int
    compress: bool = False


def parts_of(content: Content, *, compress: bool = False) -> Iterator[Part]:
    """Cut a content into parts that are small enough for memory."""
    for offset in range(0, content.size, _PIECE_BYTES):
        size = min(_PIECE_BYTES, content.size - offset)
        yield Part(content=content, offset=offset, size=size, compress=compress)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The size in bytes and the hexadecimal SHA-256 of a stream."""

    size: int
    sha256: str


def write(parts: Iterable[Part], file: IO[bytes], *, comment: str = "") -> Written:
    """Write parts as a gzip stream.

    Args:
        parts: The parts, in order.
        file: The file to write to.
        comment: The comment in the stream's header, in Latin-1; no comment is written if it is empty.

    Raises:
        FleetError: A content cannot be read or has changed.
        OSError: The file cannot be written.
    """
    workers = min(os.cpu_count() or 1, _MAX_WORKERS)
    with (
        ThreadPoolExecutor(workers) as pool,
        ThreadPoolExecutor(1) as hashing,
        ThreadPoolExecutor(1) as summing,
    ):
        frames = _Frames()
        output = _Output(file, hashing, summing, frames)
        output.put(_Piece(blocks=[_header(comment)], content=[]))
        for piece in _in_order(pool, _grouped(parts), frames, ahead=workers + 2):
            output.put(piece)
        return output.end()


class _Frames:
    """A pool of stored blocks of the usual size, because allocating memory costs as much as reading."""

    def __init__(self) -> None:
        self._free: list[deflate.Stored] = []
        self._lent: dict[int, deflate.Stored] = {}

    def take(self, size: int) -> deflate.Stored:
        if size != _PIECE_BYTES:
            return deflate.stored(size)
        try:
            frame = self._free.pop()
        except IndexError:
            frame = deflate.stored(size)
        self._lent[id(frame.blocks)] = frame
        return frame

    def give_back(self, blocks: Bytes) -> None:
        frame = self._lent.pop(id(blocks), None)
        if frame is not None:
            self._free.append(frame)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Deflate blocks and their uncompressed content."""

    blocks: Sequence[Bytes]
    content: Sequence[Bytes]


class _Output:
    """Writes pieces to a file, and meanwhile hashes the written bytes and sums the uncompressed content."""

    def __init__(
        self, file: IO[bytes], hashing: ThreadPoolExecutor, summing: ThreadPoolExecutor, frames: _Frames
    ) -> None:
        self._file = file
        self._hashing = hashing
        self._summing = summing
        self._frames = frames
        self._sha256 = hashlib.sha256()
        self._crc = self._content_size = self._size = 0
        self._waiting: deque[tuple[_Piece, tuple[Future[None], Future[None]]]] = deque()

    def put(self, piece: _Piece) -> None:
        started = self._hashing.submit(self._hash, piece), self._summing.submit(self._sum, piece)
        self._waiting.append((piece, started))
        for block in piece.blocks:
            self._file.write(block)
            self._size += len(block)
        while len(self._waiting) > 1:
            self._finish_one()

    def end(self) -> Written:
        while self._waiting:
            self._finish_one()
        size = (self._content_size & 0xFFFFFFFF).to_bytes(4, "little")
        self.put(_Piece(blocks=[deflate.LAST, self._crc.to_bytes(4, "little"), size], content=[]))
        self._finish_one()
        return Written(size=self._size, sha256=self._sha256.hexdigest())

    def _hash(self, piece: _Piece) -> None:
        for block in piece.blocks:
            self._sha256.update(block)

    def _sum(self, piece: _Piece) -> None:
        for each in piece.content:
            self._crc = zlib.crc32(each, self._crc)
            self._content_size += len(each)

    def _finish_one(self) -> None:
        piece, started = self._waiting.popleft()
        for each in started:
            each.result()
        for block in piece.blocks:
            self._frames.give_back(block)


def _grouped(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """Group parts so that each group is worth a thread's turn."""
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
    pool: ThreadPoolExecutor, groups: Iterable[list[Part]], frames: _Frames, *, ahead: int
) -> Iterator[_Piece]:
    """Yield the deflated groups in order, with a limited number in memory at a time."""
    waiting: deque[Future[_Piece]] = deque()
    for group in groups:
        waiting.append(pool.submit(_piece, group, frames))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _piece(parts: Sequence[Part], frames: _Frames) -> _Piece:
    blocks: list[Bytes] = []
    content: list[Bytes] = []
    for part in parts:
        if part.compress:
            data = bytearray(part.size)
            part.content.fill([memoryview(data)], offset=part.offset)
            blocks.append(deflate.compressed(data))
            content.append(data)
        else:
            frame = frames.take(part.size)
            part.content.fill(frame.places, offset=part.offset)
            blocks.append(frame.blocks)
            content.extend(frame.places)
    return _Piece(blocks=blocks, content=content)


def _header(comment: str) -> bytes:
    """Return a member's header without a time or a name."""
    flags = _COMMENT if comment else 0
    start = bytes((0x1F, 0x8B, 8, flags, 0, 0, 0, 0, 0, _ANY_SYSTEM))
    return start + comment.encode("latin-1") + b"\0" if comment else start
