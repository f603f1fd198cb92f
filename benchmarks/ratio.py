"""Two ways to do one thing, timed in turn, and the ratio of their times pair by pair."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The ratio of the times of two ways."""

    subject: str
    ours: str
    theirs: str
    pairs: Sequence[tuple[float, float]]

    def cells(self) -> tuple[str, ...]:
        """Return a row of the table: medians, and the median and the range of the ratios."""
        own, other = (statistics.median(pair[way] for pair in self.pairs) for way in (0, 1))
        ratios = [theirs / ours for ours, theirs in self.pairs]
        return (
            self.subject,
            self.ours,
            f"{own * 1e3:,.3g} ms",
            self.theirs,
            f"{other * 1e3:,.3g} ms",
            f"{statistics.median(ratios):.2f}",
            f"{min(ratios):.2f} to {max(ratios):.2f}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A run of measurements, in a folder of its own; if it is `short`, one round of each, of less work."""

    folder: Path
    short: bool

    def measure(
        self,
        subject: str,
        *,
        ours: tuple[str, Callable[[], object]],
        theirs: tuple[str, Callable[[], object]],
        pairs: int,
        reset: Callable[[], object] = lambda: None,
    ) -> Ratio:
        """Time the two ways A B A B ..., after one round that does not count; if short, that round alone.

        `reset` runs after each pair, and is not timed.
        """
        timed = []
        for _ in range(1 if self.short else pairs + 1):
            timed.append((_seconds(ours[1]), _seconds(theirs[1])))
            reset()
        counted = timed if self.short else timed[1:]
        return Ratio(subject=subject, ours=ours[0], theirs=theirs[0], pairs=counted)


def _seconds(do: Callable[[], object]) -> float:
    start = time.perf_counter()
    do()
    return time.perf_counter() - start
