"""A reader of one gzip stream that verifies its checksum, in constant memory.

Python's gzip continues with a second member, but tarfile's "r|gz" ignores it together with the checksum.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import IO

from triton_models.artifact.unpacking.limits import Limits
from triton_models.artifact.unpacking.refusals import RefusedError

MAGIC = b"\x1f\x8b"
_PACKED_BYTES = 256 << 10
_UNPACKED_BYTES = 1 << 20
_GZIP = 31  # zlib's code for a gzip header and trailer, both checked


def parts_of(source: IO[bytes]) -> Iterator[bytes]:
    """Yield the content of a file in parts."""
    while part := source.read(_PACKED_BYTES):
        yield part


def inflated(packed: Iterator[bytes], limits: Limits) -> Iterator[bytes]:
    """Yield the content of a gzip stream, which only zeros may follow.

    Raises:
        RefusedError: The stream is damaged, too large, or followed by other bytes.
    """
    stream = zlib.decompressobj(wbits=_GZIP)
    packed_bytes = unpacked_bytes = 0
    for part in packed:
        packed_bytes += len(part)
        for piece in _inflated_part(stream, part):
            unpacked_bytes += len(piece)
            refuse_bomb(packed_bytes, unpacked_bytes, limits)
            yield piece
        if stream.eof:
            _refuse_trailing(stream.unused_data, packed)
            return
    what = f"the gzip stream ends early, after {packed_bytes} bytes" if packed_bytes else "the file is empty"
    raise RefusedError("archive-damaged", what)


def limited(parts: Iterator[bytes], limits: Limits) -> Iterator[bytes]:
    """Yield uncompressed parts within the limits."""
    size = 0
    for part in parts:
        size += len(part)
        refuse_bomb(size, size, limits)
        yield part


def refuse_bomb(packed: int, unpacked: int, limits: Limits) -> None:
    """Refuse too many unpacked bytes.

    Raises:
        RefusedError: They exceed a limit.
    """
    if unpacked > limits.unpacked_bytes:
        raise RefusedError("archive-limit", f"more than {limits.unpacked_bytes} bytes when unpacked")
    if unpacked > limits.ratio_from_bytes and unpacked > packed * limits.ratio:
        what = f"{unpacked} bytes unpacked from {packed}, more than {limits.ratio} times as many"
        raise RefusedError("archive-limit", what)


def _inflated_part(stream: zlib._Decompress, part: bytes) -> Iterator[bytes]:
    while True:
        try:
            piece = stream.decompress(part, _UNPACKED_BYTES)
        except zlib.error as error:
            raise RefusedError("archive-damaged", f"not a valid gzip stream: {error}") from None
        if piece:
            yield piece
        part = stream.unconsumed_tail
        if stream.eof or (not part and len(piece) < _UNPACKED_BYTES):
            return


def _refuse_trailing(rest: bytes, packed: Iterator[bytes]) -> None:
    # bsdtar pads with zeros, which gzip(1) also ignores.
    first = True
    while True:
        if first and rest.startswith(MAGIC):
            raise RefusedError("archive-trailing", "a second gzip stream after the first")
        if rest.count(0) != len(rest):
            raise RefusedError("archive-trailing", "bytes after the end of the gzip stream")
        first = first and not rest
        following = next(packed, None)
        if following is None:
            return
        rest = following
