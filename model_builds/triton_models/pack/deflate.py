"""Deflate blocks (RFC 1951) that begin and end on a byte, so they can be made separately and concatenated.

Stored blocks are written here, so their bytes do not depend on a library. `compressed` uses the zlib that
Python loads. Another version may give other bytes for the same content.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple

# The maximum size of a stored block, whose length has 16 bits.
STORED_BYTES = 0xFFFF

# Recorded in an artifact whose bytes depend on it. Level 4 is within 6 % of level 6's size, at twice its
# speed or more (measured on source files, libraries, JSON and pruned weights, 2026-11-21).
_LEVEL = 4
COMPRESSOR = f"zlib {zlib.ZLIB_RUNTIME_VERSION}, level {_LEVEL}"

# The last block of a stream, which is empty.
LAST = b"\x03\x00"

_BLOCK_HEADER_BYTES = 5


class Stored(NamedTuple):
    """Blocks of uncompressed bytes, and the places for those bytes."""

    blocks: bytearray
    places: Sequence[memoryview]


def stored(size: int) -> Stored:
    """Return stored blocks for a number of bytes, still to be filled in."""
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
    """Compress a content with zlib; incompressible content grows by 0.03 %."""
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(content) + compressor.flush(zlib.Z_SYNC_FLUSH)
