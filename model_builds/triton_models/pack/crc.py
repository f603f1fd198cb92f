"""The CRC-32 of two contents in a row, from the CRC-32 of each: so that parts are summed on all cores."""

from __future__ import annotations

from functools import lru_cache

# RFC 1952 section 8: the polynomial, with its bits reversed. Bit 31 stands for x to the power of 0.
_POLYNOMIAL = 0xEDB88320
_ONE = 1 << 31
_X_TO_8 = 1 << 23


def combine(first: int, second: int, size: int) -> int:
    """The CRC-32 of a content followed by another one.

    Args:
        first: The CRC-32 of what comes first.
        second: The CRC-32 of what follows.
        size: The bytes of what follows.
    """
    return _product(_shift(size), first) ^ second


@lru_cache(maxsize=256)
def _shift(size: int) -> int:
    """What so many more bytes multiply a CRC by: x to the power of 8 * size."""
    result, square = _ONE, _X_TO_8
    while size:
        if size & 1:
            result = _product(result, square)
        square = _product(square, square)
        size >>= 1
    return result


def _product(one: int, other: int) -> int:
    """The product of two polynomials over GF(2), modulo that of the CRC."""
    result = 0
    while one:
        if one & _ONE:
            result ^= other
        one = (one << 1) & 0xFFFFFFFF
        other = (other >> 1) ^ _POLYNOMIAL if other & 1 else other >> 1
    return result
