"""How far an answer is from what was expected, component by component."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, Any]
else:
    Array = Any

NEVER = float("inf")
"""The difference between what cannot be compared: it is wrong by any tolerance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The component of an answer that is furthest from what was expected.

    Attributes:
        largest: Its absolute difference; infinite where a value is not a number, or a text another one.
        index: Where it stands.
        got: What was answered there, as a person reads it.
        expected: What was expected there.
        outside: How many components differ by more than the tolerance.
        components: How many there are.
    """

    largest: float
    index: tuple[int, ...]
    got: str
    expected: str
    outside: int
    components: int


def difference(served: Array, expected: Array, *, tolerance: float) -> Difference:
    """Compare two tensors of one shape, with at least one component.

    Equal values do not differ, infinite ones included. A value that is not a number equals nothing, not even
    another one: a reference that holds it proves nothing.
    """
    import numpy as np

    gaps = _gaps(served, expected)
    index = np.unravel_index(int(gaps.argmax()), gaps.shape)
    return Difference(
        largest=float(gaps[index]),
        index=tuple(int(each) for each in index),
        got=shown(served[index]),
        expected=shown(expected[index]),
        outside=int((gaps > tolerance).sum()),
        components=gaps.size,
    )


def largest_difference(served: Array, expected: Array) -> float:
    """The largest absolute difference, and infinity where there is none to measure.

    Shapes that differ, an empty result and a value that is not a number are all wrong by any tolerance:
    a server that answers 200 with nothing in it must not pass.
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
        gaps[(served != expected) & (gaps == 0)] = 1.0  # whole numbers beyond 2**53, which a float64 rounds
    return gaps


def is_text(tensor: Array) -> bool:
    """Whether a tensor holds texts."""
    return tensor.dtype.kind in "OSU"


def _bytes(value: object) -> object:
    return value.encode() if isinstance(value, str) else value


def shown(value: object) -> str:
    """A component as a person reads it."""
    if isinstance(value, bytes):
        return repr(value.decode("utf-8", "backslashreplace"))
    return repr(str(value)) if isinstance(value, str) else f"{value:.7g}"
