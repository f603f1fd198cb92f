"""A parser for header blocks of tar archives that GNU tar and Python's tarfile read in the same way.

Both are lenient in different ways: bytes after a NUL, blanks and underscores in numbers, signed checksums, a
prefix in formats without one. A block that relies on this is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from triton_models.artifact.unpacking.refusals import RefusedError, shown

FILES = frozenset({b"0", b"\0"})
FOLDER = b"5"
LINKS = frozenset({b"1", b"2"})
DEVICES = frozenset({b"3", b"4", b"6"})
EXTENDED, FOR_ALL = b"x", b"g"
LONG_NAME, LONG_LINK = b"L", b"K"

EIGHT_GIB = 8 << 30
"""The first size that does not fit into eleven octal digits."""

_POSIX, _GNU, _NONE = b"ustar\00000", b"ustar  \0", bytes(8)
_OCTAL = re.compile(rb" *[0-7]+[ \0]*")
_BLANK = re.compile(rb"[ \0]*")
_POSITIVE, _NEGATIVE = 0x80, 0xFF  # the first byte of a number in base 256
_CHECKSUM = slice(148, 156)

# The fields of numbers, and their limits in GNU tar's types.
_NUMBERS = {
    "mode": (slice(100, 108), 1 << 32),
    "uid": (slice(108, 116), 1 << 32),
    "gid": (slice(116, 124), 1 << 32),
    "size": (slice(124, 136), 1 << 62),
    "mtime": (slice(136, 148), 1 << 62),
}
_DEVICE_NUMBERS = (slice(329, 337), slice(337, 345))


@dataclass(frozen=True, slots=True)
class Header:
    """The content of a header block."""

    name: bytes
    kind: bytes
    size: int
    mode: int


def parse(block: bytes) -> Header:
    """Parse a header block.

    Raises:
        RefusedError: The block is damaged or ambiguous.
    """
    _refuse_checksum(block)
    name = _string(block[:100], "name")
    kind = block[156:157]
    magic = block[257:265]
    if magic == _POSIX:
        prefix = _string(block[345:500], "prefix")
        name = prefix + b"/" + name if prefix else name
        unused = block[500:]
    elif magic in (_GNU, _NONE):
        unused = block[345:] if magic == _GNU else block[257:]
    else:
        raise RefusedError("archive-damaged", f"a header with the unknown magic {magic!r}")
    if kind not in b"SMDNV" and unused.count(0) != len(unused):
        raise RefusedError("archive-ambiguous", f"unused bytes in the header of {shown(name)!r} are not zero")
    numbers = {field: _number(block, field) for field in _NUMBERS}
    for field in _DEVICE_NUMBERS:
        if not _OCTAL.fullmatch(block[field]) and not _BLANK.fullmatch(block[field]):
            raise RefusedError("archive-ambiguous", f"the device number {block[field]!r} of {shown(name)!r}")
    if numbers["size"] < 0:
        raise RefusedError("archive-damaged", f"a negative size of {shown(name)!r}")
    return Header(name, kind, numbers["size"], numbers["mode"])


def _refuse_checksum(block: bytes) -> None:
    field = block[_CHECKSUM]
    computed = sum(block) - sum(field) + len(field) * ord(" ")
    if not _OCTAL.fullmatch(field) or int(field.strip(b" \0"), 8) != computed:
        raise RefusedError("archive-damaged", f"the checksum of a header is {field!r}, not {computed:o}")


def _string(field: bytes, what: str) -> bytes:
    text, _, rest = field.partition(b"\0")
    if rest.count(0) != len(rest):
        raise RefusedError("archive-ambiguous", f"a {what} with bytes after a NUL: {shown(field)!r}")
    return text


def _number(block: bytes, field: str) -> int:
    place, below = _NUMBERS[field]
    digits = block[place]
    if _OCTAL.fullmatch(digits):
        return int(digits.strip(b" \0"), 8)
    if digits[0] in (_POSITIVE, _NEGATIVE):
        signed = int.from_bytes(digits[1:], "big") - (
            256 ** (len(digits) - 1) if digits[0] == _NEGATIVE else 0
        )
        if -below < signed < below and (signed >= 0 or field in ("mtime", "size")):
            return signed
    raise RefusedError(
        "archive-ambiguous", f"a header with the {field} {digits!r}, which is not octal digits"
    )
