"""How far two answers of a model differ."""

from __future__ import annotations

from collections.abc import Mapping

from triton_models.base.encoding import Array

NEVER = float("inf")
"""The difference of values that cannot be compared, which exceeds any tolerance."""


def same(one: Mapping[str, Array], other: Mapping[str, Array], *, tolerance: float) -> bool:
    """Return whether two answers have the same outputs, within the tolerance; two NaN are the same."""
    return one.keys() == other.keys() and all(_same(one[name], other[name], tolerance) for name in one)


def _same(one: Array, other: Array, tolerance: float) -> bool:
    import numpy as np

    if one.shape != other.shape or is_text(one) != is_text(other):
        return False
    gaps = gaps_of(one, other)
    if one.dtype.kind == other.dtype.kind == "f":
        gaps[np.isnan(one) & np.isnan(other)] = 0.0
    return bool((gaps <= tolerance).all())


def largest_difference(served: Array, expected: Array) -> float:
    """Return the largest absolute difference; infinity if it cannot be measured.

    Different shapes, an empty result and one of only NaN exceed any tolerance, because a server that answers
    200 with such a result must not pass.
    """
    if served.shape != expected.shape or not served.size:
        return NEVER
    return float(gaps_of(served, expected).max())


def gaps_of(served: Array, expected: Array) -> Array:
    """Return the absolute difference of each component of two tensors of one shape.

    NaN does not differ from NaN, unless all components are NaN: then nothing is compared.
    """
    import numpy as np

    if is_text(served) or is_text(expected):
        unequal = [
            _bytes(one) != _bytes(other) for one, other in zip(served.flat, expected.flat, strict=True)
        ]
        return np.where(np.array(unequal).reshape(served.shape), NEVER, 0.0)
    wide, other = served.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        gaps = np.abs(wide - other)
    gaps[wide == other] = 0.0
    both = np.isnan(wide) & np.isnan(other)
    if not both.all():
        gaps[both] = 0.0
    gaps[np.isnan(gaps)] = NEVER
    if served.dtype.kind in "iu" and expected.dtype.kind in "iu":
        gaps[(served != expected) & (gaps == 0)] = 1.0  # integers beyond 2**53, which a float64 rounds
    return gaps


def is_text(tensor: Array) -> bool:
    """Return whether a tensor contains strings."""
    return tensor.dtype.kind in "OSU"


def _bytes(value: object) -> object:
    return value.encode() if isinstance(value, str) else value
