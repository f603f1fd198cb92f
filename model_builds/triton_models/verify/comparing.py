"""Comparison of an answer with the expected one, component by component."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, Any]
else:
    Array = Any

NEVER = float("inf")
"""The difference of values that cannot be compared, which exceeds any tolerance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The component of an answer with the largest difference.

    Attributes:
        largest: Its absolute difference; infinite if a value is not a number, or if strings differ.
        got: Its value in the answer, in readable form.
        outside: The number of components that differ by more than the tolerance.
    """

    largest: float
    index: tuple[int, ...]
    got: str
    expected: str
    outside: int
    components: int


def difference(served: Array, expected: Array, *, tolerance: float) -> Difference:
    """Compare two tensors of one shape, with at least one component.

    Equal values do not differ, including infinite ones. NaN does not equal any value, not even NaN, because a
    reference that contains it proves nothing.
    """
    import numpy as np

    gaps = _gaps(served, expected)
    index = np.unravel_index(int(gaps.argmax()), gaps.shape)
    got, wanted = shown(served[index]), shown(expected[index])
    if got == wanted and gaps[index]:  # values that differ look different
        got, wanted = _exactly(served[index]), _exactly(expected[index])
    return Difference(
        largest=float(gaps[index]),
        index=tuple(int(each) for each in index),
        got=got,
        expected=wanted,
        outside=int((gaps > tolerance).sum()),
        components=gaps.size,
    )


def largest_difference(served: Array, expected: Array) -> float:
    """Return the largest absolute difference; infinity if it cannot be measured.

    Different shapes, an empty result and NaN exceed any tolerance, because a server that answers 200 with an
    empty result must not pass.
    """
    if served.shape != expected.shape or not served.size:
        return NEVER
    return float(_gaps(served, expected).max())


def _gaps(served: Array, expected: Array) -> Array:
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
    gaps[np.isnan(gaps)] = NEVER
    if served.dtype.kind in "iu" and expected.dtype.kind in "iu":
        gaps[(served != expected) & (gaps == 0)] = 1.0  # integers beyond 2**53, which a float64 rounds
    return gaps


def is_text(tensor: Array) -> bool:
    """Return whether a tensor contains strings."""
    return tensor.dtype.kind in "OSU"


def _bytes(value: object) -> object:
    return value.encode() if isinstance(value, str) else value


def _exactly(value: Any) -> str:
    return f"{value:.17g}" if value.dtype.kind == "f" else str(value)


def shown(value: object) -> str:
    """Return a component in readable form."""
    if isinstance(value, bytes):
        return repr(value.decode("utf-8", "backslashreplace"))
    return repr(str(value)) if isinstance(value, str) else f"{value:.7g}"
