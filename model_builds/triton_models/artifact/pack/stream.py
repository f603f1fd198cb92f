"""A gzip stream (RFC 1952) of one member, whose bytes do not depend on the machine.

It consists of DEFLATE blocks (RFC 1951) that begin and end on a byte, so they can be made separately. Stored
blocks are written here, so their bytes do not depend on a library. Compressed blocks are those of the zlib
that Python loads. Another version may give other bytes for the same content.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, NamedTuple

from triton_models.artifact.pack.content import Content

# Recorded in an artifact whose bytes depend on it. Level 4 is within 6 % of level 6's size, at twice its
# speed or more (measured on source files, libraries, JSON and pruned weights, 2026-11-21).
_LEVEL = 4
COMPRESSOR = f"zlib {zlib.ZLIB_RUNTIME_VERSION}, level {_LEVEL}"

# The first bytes of a stream: flags, no time, no name, any system.
_START = b"\x1f\x8b\x08%c\0\0\0\0\0\xff"
_PLAIN, _WITH_COMMENT = _START % 0, _START % 0x10
HEADER = re.compile(re.escape(_PLAIN) + b"|" + re.escape(_WITH_COMMENT) + rb"zlib [^\0]+, level [0-9]\0")
"""The header of a stream, by any version of zlib."""

_LAST_BLOCK = b"\x03\x00"
_STORED_BYTES = 0xFFFF  # the length of a stored block has 16 bits

# Small enough to stay in a core's cache while it is read, summed, hashed and written.
_PIECE_BYTES = 16 * _STORED_BYTES

# More would only wait for the hashing, which uses one core, and occupy memory.
_MAX_WORKERS = 16


class Part(NamedTuple):
    """A section of a content, stored or compressed."""

    content: Content
    offset: int
    size: int
    compress: bool


def parts_of(content: Content, *, compress: bool = False) -> Iterator[Part]:
    """Cut a content into parts that are small enough for memory."""
    for offset in range(0, content.size, _PIECE_BYTES):
        yield Part(content, offset, min(_PIECE_BYTES, content.size - offset), compress)


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
    sha256 = hashlib.sha256()
    size = content_size = crc = 0

    def put(block: bytes | memoryview) -> None:
        nonlocal size
        file.write(block)
        sha256.update(block)
        size += len(block)

    put(_WITH_COMMENT + comment.encode("latin-1") + b"\0" if comment else _PLAIN)
    for data, blocks in _deflated_in_order(parts):
        content_size += len(data)
        crc = zlib.crc32(data, crc)
        for block in blocks:
            put(block)
    put(_LAST_BLOCK + crc.to_bytes(4, "little") + (content_size & 0xFFFFFFFF).to_bytes(4, "little"))
    return Written(size=size, sha256=sha256.hexdigest())


class _Deflated(NamedTuple):
    data: bytes
    blocks: list[bytes | memoryview]


def _deflated_in_order(parts: Iterable[Part]) -> Iterator[_Deflated]:
    """Deflate parts on all cores, with a limited number in memory at a time."""
    workers = min(os.cpu_count() or 1, _MAX_WORKERS)
    waiting: deque[Future[_Deflated]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for part in parts:
            waiting.append(pool.submit(_deflated, part))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _deflated(part: Part) -> _Deflated:
    data = part.content.read(part.size, offset=part.offset)
    return _Deflated(data, [compressed(data)] if part.compress else list(_stored(data)))


def compressed(data: bytes) -> bytes:
    """Compress with zlib; incompressible content grows by 0.03 %."""
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH)


def _stored(data: bytes) -> Iterator[bytes | memoryview]:
    view = memoryview(data)
    for start in range(0, len(data), _STORED_BYTES):
        block = view[start : start + _STORED_BYTES]
        yield b"\0" + len(block).to_bytes(2, "little") + (len(block) ^ 0xFFFF).to_bytes(2, "little")
        yield block
