"""The first bytes of a TensorRT plan, which contain the version of TensorRT that compiled it.

The layout is what TensorRT's own `trtexec --getPlanVersionOnly` reads (samples/common/sampleEngines.cpp of
NVIDIA/TensorRT, read 2026-11-21): a 32-bit tag, a 32-bit version of the layout that must be 0, 16 bytes that
do not matter here, and four bytes: major, minor, patch and build. Everything is little-endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

HEADER_BYTES = 28

_TAG = 0x74727466
_LAYOUT = 0
_VERSION = slice(24, 28)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanHeader:
    """The header of a plan, readable without loading the plan.

    Attributes:
        tensorrt: The version of TensorRT that compiled it, with four numbers.
    """

    tensorrt: str

    def loads_in(self, tensorrt: str) -> bool:
        """Return True if that version of TensorRT loads the plan, comparing the numbers that both state."""
        return all(
            own == other for own, other in zip(self.tensorrt.split("."), tensorrt.split("."), strict=False)
        )


def plan_beginning(tensorrt: str) -> bytes:
    """Return the first bytes of a plan of that version of TensorRT; missing numbers are 0."""
    numbers = [int(number) for number in tensorrt.split(".")]
    return struct.pack("<II16x4B", _TAG, _LAYOUT, *numbers, *[0] * (4 - len(numbers)))


def read_plan_header(beginning: bytes) -> PlanHeader | None:
    """Read the header at the beginning of a file; return None if the file is not a plan.

    Args:
        beginning: At least the first 28 bytes of the file, or all of a shorter one.
    """
    if len(beginning) < HEADER_BYTES:
        return None
    tag, layout = struct.unpack_from("<II", beginning)
    if (tag, layout) != (_TAG, _LAYOUT):
        return None
    return PlanHeader(tensorrt=".".join(str(number) for number in beginning[_VERSION]))
