"""Deflate blocks (RFC 1951) that begin and end on a byte, so that they can be made apart and put in a row.

`stored` and `runs` are written here, so their bytes are the same with any library, of any version.
`compressed` is the zlib that Python was built with: another version may give other bytes for a content.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import NamedTuple

# The most that a stored block holds: its length has 16 bits.
STORED_BYTES = 0xFFFF

# Said in an artifact whose bytes depend on it. Level 4 is within 6 % of level 6's size, at twice its speed or
# more (measured on source files, libraries, JSON and pruned weights, 2026-11-21).
_LEVEL = 4
COMPRESSOR = f"zlib {zlib.ZLIB_RUNTIME_VERSION}, level {_LEVEL}"

# The last block of a stream: it is empty.
LAST = b"\x03\x00"

_BLOCK_HEADER_BYTES = 5
_MATCH_BYTES = 258
_RUN = re.compile(rb"\0{4,}")


class Stored(NamedTuple):
    """Blocks that hold bytes as they are, and the places in them where the bytes belong."""

    blocks: bytearray
    places: Sequence[memoryview]


def stored(size: int) -> Stored:
    """Blocks for so many bytes."""
    blocks = bytearray(size + -(-size // STORED_BYTES) * _BLOCK_HEADER_BYTES)
    view, places, at = memoryview(blocks), [], 0
    for first in range(0, size, STORED_BYTES):
        length = min(STORED_BYTES, size - first)
        blocks[at + 1 : at + 3] = length.to_bytes(2, "little")
        blocks[at + 3 : at + 5] = (length ^ 0xFFFF).to_bytes(2, "little")
        at += _BLOCK_HEADER_BYTES
        places.append(view[at : at + length])
        at += length
    return Stored(blocks, places)


def compressed(content: bytes | bytearray) -> bytes:
    """Blocks that hold a content in zlib's form; longer by 0.03 % if there is nothing to gain."""
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(content) + compressor.flush(zlib.Z_SYNC_FLUSH)


def runs(content: bytes) -> bytes:
    """Blocks that hold a content with its runs of zeros made short: tar's headers consist of those."""
    bits, at = ["010"], 0  # not the last block; the codes of RFC 1951 section 3.2.6
    for run in _RUN.finditer(content):
        bits.extend(_LITERALS[byte] for byte in content[at : run.start()])
        bits.append(_zeros(len(run[0])))
        at = run.end()
    bits.extend(_LITERALS[byte] for byte in content[at:])
    bits.append(_symbol(256))  # the end of the block
    bits.append("000")  # an empty stored block, which begins on a byte
    stream = "".join(bits)
    size = -(-len(stream) // 8)
    return int(stream[::-1], 2).to_bytes(size, "little") + b"\x00\x00\xff\xff"


def _zeros(count: int) -> str:
    """A run of zeros: one, and then repetitions of the byte before."""
    matches, rest = divmod(count - 1, _MATCH_BYTES)
    tail = _REPETITIONS[rest] if rest in _REPETITIONS else _LITERALS[0] * rest
    return _LITERALS[0] + _REPETITIONS[_MATCH_BYTES] * matches + tail


def _symbol(value: int) -> str:
    """The fixed code of a literal or length, in the order of the stream."""
    if value < 144:  # noqa: PLR2004 (the borders are those of RFC 1951 section 3.2.6)
        return f"{0b00110000 + value:08b}"
    if value < 256:  # noqa: PLR2004
        return f"{0b110010000 + value - 144:09b}"
    if value < 280:  # noqa: PLR2004
        return f"{value - 256:07b}"
    return f"{0b11000000 + value - 280:08b}"


def _repetitions() -> dict[int, str]:
    """A repetition of the byte before, by its length: RFC 1951 section 3.2.5."""
    distance_1 = "00000"
    codes, length = {}, 3
    for symbol in range(257, 285):
        extra = max(0, (symbol - 261) // 4)
        for offset in range(1 << extra):
            more = f"{offset:0{extra}b}"[::-1] if extra else ""
            codes[length] = _symbol(symbol) + more + distance_1
            length += 1
    codes[_MATCH_BYTES] = _symbol(285) + distance_1
    return codes


_LITERALS = tuple(_symbol(byte) for byte in range(256))
_REPETITIONS = _repetitions()
