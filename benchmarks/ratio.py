"""Two ways to do one thing, timed in turn, and the ratio of their times pair by pair."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The ratio of the times of two ways.

    Attributes:
        subject: The work that is timed.
        ours: The way of this project, and its median time in seconds.
        theirs: The other way, and its median time in seconds.
        ours_s: As above.
        theirs_s: As above.
        low: The smallest ratio of a pair.
        middle: The median ratio.
        high: The largest ratio of a pair.
    """

    subject: str
    ours: str
    theirs: str
    ours_s: float
    theirs_s: float
    low: float
    middle: float
    high: float


def measure(
    subject: str,
    *,
    ours: tuple[str, Callable[[], object]],
    theirs: tuple[str, Callable[[], object]],
    pairs: int,
    short: bool,
    reset: Callable[[], object] = lambda: None,
) -> Ratio:
    """Time the two ways A B A B ..., after one round that does not count.

    Args:
        subject: The work that is timed.
        ours: The name of this project's way, and the way itself.
        theirs: The same for the other.
        pairs: Number of timings of each.
        short: True to time one round, the first: the ratio then means little.
        reset: Done after each pair, and not timed.
    """
    timed = []
    for _ in range(1 if short else pairs + 1):
        timed.append((_seconds(ours[1]), _seconds(theirs[1])))
        reset()
    if not short:
        del timed[0]
    ratios = sorted(other / own for own, other in timed)
    return Ratio(
        subject=subject,
        ours=ours[0],
        theirs=theirs[0],
        ours_s=statistics.median(own for own, _ in timed),
        theirs_s=statistics.median(other for _, other in timed),
        low=ratios[0],
        middle=statistics.median(ratios),
        high=ratios[-1],
    )


def _seconds(do: Callable[[], object]) -> float:
    start = time.perf_counter()
    do()
    return time.perf_counter() - start
