"""The bytes of an artifact: tar headers, the choice of files to compress, and one gzip stream.

The headers (POSIX.1-2001, "pax") contain only the name, size and kind of an entry. Python's tarfile also
writes them, but its bytes depend on the version of Python.

The stream (RFC 1952) consists of DEFLATE blocks (RFC 1951) that begin and end on a byte, so they can be made
separately. Stored blocks are written here, so their bytes do not depend on a library. Compressed blocks are
those of the zlib that Python loads. Another version may give other bytes for the same content.

Files are compressed if that shortens a cold start. An instance downloads an artifact, then unpacks it:
deflate shortens the download but lengthens the unpacking. Trained weights lose: they shrink by 7 to 20 %, and
inflating them takes twice as long as copying them. Files with repeated sequences gain: text, programs,
indices, pruned weights. Samples are searched for those without a compression library, so the choice does not
depend on its version.

Measured with gzip 1.12, 2026-11-21: the download speed below which deflate pays, and in brackets the share of
repeated sequences. Weights in float32, float16 and int8: 24 to 32 MB/s (0.00); in bfloat16: 54 (0.00); with
half of them pruned, in float16: 106 (0.33), in float32: 199 (0.44). Libraries: 314 (0.50); JSON: 277 (0.61);
Python: 882 (0.75). S3 gives one request 85 to 90 MB/s (AWS, "Performance design patterns for Amazon S3").
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, NamedTuple

from triton_models.artifact.pack.content import Content

# Headers

BLOCK_BYTES = 512

# Two empty blocks end an archive.
END = bytes(2 * BLOCK_BYTES)

_FILE, _FOLDER, _EXTENDED = b"0", b"5", b"x"

# The only file of an artifact that must be executable: Python finds an environment by the first executable
# python3 on PATH. Up to release 25.07, Triton runs bin/activate, which can make it executable; from 25.08 on,
# nothing does (ParseActivationScript in src/pb_utils.cc of python_backend, commit 8b5a055 of 2025-08-13).
_INTERPRETER = "/bin/python3"
_NAME_BYTES = 100
_MAX_SIZE = 8 * 1024**3 - 1  # eleven octal digits


def file_header(name: str, size: int) -> bytes:
    """Return the header before a file's content."""
    mode = 0o755 if name.endswith(_INTERPRETER) else 0o644
    return _header(name, size=size, mode=mode, kind=_FILE)


def frames(directories: Collection[str], sizes: Mapping[str, int]) -> Iterator[tuple[bytes, str | None]]:
    """Yield an archive without its contents: what precedes each file's, with the file; None at the end."""
    before = b""
    for name in sorted({*directories, *sizes}):
        if name in directories:
            before += _header(f"{name}/", size=0, mode=0o755, kind=_FOLDER)
            continue
        yield before + file_header(name, sizes[name]), name
        before = _padding(sizes[name])
    yield before + END, None


def _padding(size: int) -> bytes:
    return bytes(-size % BLOCK_BYTES)


def _header(name: str, *, size: int, mode: int, kind: bytes) -> bytes:
    extended = b""
    if not name.isascii() or len(name) > _NAME_BYTES:
        extended += _record("path", name)
    if size > _MAX_SIZE:
        extended += _record("size", str(size))
        size = 0
    block = _block(name, size=size, mode=mode, kind=kind)
    if not extended:
        return block
    before = _block("././@PaxHeader", size=len(extended), mode=0o644, kind=_EXTENDED)
    return before + extended + _padding(len(extended)) + block


def _record(key: str, value: str) -> bytes:
    """Return a line of an extended header, which starts with its own length."""
    line = f" {key}={value}\n".encode()
    size = len(line) + 1
    while len(str(size)) + len(line) != size:
        size = len(str(size)) + len(line)
    return str(size).encode() + line


def _block(name: str, *, size: int, mode: int, kind: bytes) -> bytes:
    before = b"".join(
        (
            name.encode("ascii", "replace")[:_NAME_BYTES].ljust(_NAME_BYTES, b"\0"),
            b"%07o\0" % mode,
            b"0000000\0" * 2,  # user and group
            b"%011o\0" % size,
            b"00000000000\0",  # time
        )
    )
    after = b"".join(
        (
            kind,
            bytes(100),  # the target of a link
            b"ustar\00000",
            bytes(64),  # names of user and group
            b"0000000\0" * 2,  # device
            bytes(155 + 12),
        )
    )
    checksum = sum(before) + sum(after) + 8 * ord(" ")
    return before + b"%06o\0 " % checksum + after


# The choice of files to compress

# The share of repeated sequences from which on a file is compressed.
_WORTH = 0.3

# Compression makes an artifact's bytes depend on zlib's version, so it must save more than this, which
# downloads in eleven milliseconds.
_WORTH_BYTES = 1 << 20

_SAMPLES = 4
_SAMPLE_BYTES = 16 << 10
_SEQUENCE_BYTES = 4


def worth_compressing(contents: Mapping[str, Content]) -> frozenset[str]:
    """Return the names of the files to compress; none unless that saves more than a megabyte."""
    shares = {name: repeated(content) for name, content in contents.items()}
    chosen = {name for name, share in shares.items() if share >= _WORTH}
    saved = sum(shares[name] * contents[name].size for name in chosen)
    return frozenset(chosen) if saved >= _WORTH_BYTES else frozenset()


def repeated(content: Content) -> float:
    """Estimate the share of four-byte sequences, from 0 to 1, that occurred shortly before."""
    size = min(content.size, _SAMPLE_BYTES) // _SEQUENCE_BYTES * _SEQUENCE_BYTES
    if size < _SAMPLE_BYTES:
        return _share(content, offsets=[0], size=size)
    last = content.size - size
    return _share(content, offsets=[last * i // (_SAMPLES - 1) for i in range(_SAMPLES)], size=size)


def _share(content: Content, *, offsets: list[int], size: int) -> float:
    count = size - _SEQUENCE_BYTES  # omit one of each alignment, so that the four have equal lengths
    if count <= 0:
        return 0.0
    different = 0
    for offset in offsets:
        sample = memoryview(content.read(size, offset=offset))
        sequences: set[int] = set()
        for shift in range(_SEQUENCE_BYTES):
            sequences.update(sample[shift : shift + count].cast("I"))
        different += len(sequences)
    return 1 - different / (count * len(offsets))


# The stream

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
    """Write parts, in order, as a gzip stream; a comment, in Latin-1, becomes part of its header.

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
