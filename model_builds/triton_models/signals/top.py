"""`fleet top`: what each model does, as its clients see it."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.tables import Column, numbers, table
from triton_models.facts.cost import counted
from triton_models.repository.objects import opened
from triton_models.signals.counts import Counts, added
from triton_models.signals.stored import Signals, read

NO_SIGNALS = Check(id="no-signals", source=FROM_ARGUMENTS)

_CLEAR = "\x1b[H\x1b[2J"
_EVERY_S = 15.0

_Key = Callable[[Counts], float]

SORTS: Mapping[str, _Key] = {
    "requests": lambda each: each.requests,
    "failed": lambda each: each.failed,
    "p50": lambda each: each.percentile(0.5),
    "p99": lambda each: each.percentile(0.99),
    "waited": lambda each: each.waited,
    "time": lambda each: each.seconds,
}
"""The columns by which the models can be sorted, the largest figure first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A model, or one of its artifacts."""

    name: str
    counts: Counts


CELLS: Mapping[str, Callable[[Row], str]] = {
    "requests": lambda each: f"{each.counts.requests:,}",
    "failed": lambda each: f"{each.counts.failed:,}",
    "p50": lambda each: _time(each.counts.percentile(0.5)),
    "p99": lambda each: _time(each.counts.percentile(0.99)),
    "waited": lambda each: f"{each.counts.waited:,}",
}
"""What a table says of a row, by its titles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """The result of `fleet top`."""

    endpoint: str
    signals: Signals
    rows: tuple[Row, ...]
    shown: int
    exit_code: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the figures of all models as JSON-ready data, with times in seconds."""
        return {
            "endpoint": self.endpoint,
            "since": self.signals.since,
            "seconds": self.signals.seconds,
            "processes": self.signals.processes,
            "models": [
                {
                    "name": each.name,
                    "requests": each.counts.requests,
                    "errors": each.counts.errors,
                    "p50_s": _known(each.counts.percentile(0.5)),
                    "p99_s": _known(each.counts.percentile(0.99)),
                    "waited": each.counts.waited,
                    "waited_s": each.counts.waited_s,
                    "seconds": each.counts.seconds,
                }
                for each in self.rows
            ],
            "doubts": list(self.signals.doubts()),
        }

    def lines(self) -> Iterator[str]:
        """Yield a table with the first models, and what the figures may lack."""
        total, seconds = added([{("", ""): each.counts} for each in self.rows]), self.signals.seconds
        everything = total.get(("", ""), Counts())
        yield (
            f"{self.endpoint}, {seconds / 60:,.0f} min: {everything.requests:,} requests to "
            f"{counted(len(self.rows))}, of {self.signals.processes:,} processes."
        )
        yield ""
        shown = [*self.rows[: self.shown], Row(name="all", counts=everything)]
        names = Column(title="model", cells=[each.name for each in shown])
        cells = {**CELLS, "time": lambda each: f"{each.counts.seconds / (everything.seconds or 1):.1%}"}
        errors = [", ".join(f"{name} {count:,}" for name, count in _most(each.counts)) for each in shown]
        yield from table([names, *numbers(shown, cells), Column(title="errors", cells=errors, rank=1)])
        if len(self.rows) > self.shown:
            yield f"{len(self.rows) - self.shown:,} more models: --most N, or --json for all."
        yield from self.signals.doubts()


def _most(counts: Counts) -> list[tuple[str, int]]:
    return sorted(counts.errors.items(), key=lambda each: -each[1])


def _time(seconds: float) -> str:
    if math.isnan(seconds):
        return "-"
    return f"{seconds * 1e3:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"


def _known(seconds: float) -> float | None:
    return None if math.isnan(seconds) else seconds


def top(
    url: str,
    *,
    endpoint: str,
    seconds: float,
    sort: str = "requests",
    artifacts: bool = False,
    shown: int = 20,
) -> Top:
    """Return what the models of an endpoint did in the last seconds.

    Raises:
        FleetError: Nothing was written, or S3 does not answer.
    """
    with opened(url) as store:
        signals = read(store, endpoint, since=time.time() - seconds)
    if not signals.counts and not signals.damaged:
        raise NO_SIGNALS.error(
            what=f"no client reported requests to {endpoint} in the last {seconds / 60:g} minutes",
            where=url,
            why="a minute is written when it is over, by clients that have signals=",
            fix="create them with Client(..., signals=URL), or look further back with --for",
        )
    by_name = added(
        {(artifact if artifacts else model, ""): counts}
        for (model, artifact), counts in signals.counts.items()
    )
    rows = [Row(name=name, counts=counts) for (name, _), counts in by_name.items()]
    rows.sort(key=lambda each: (-_last_if_unknown(SORTS[sort](each.counts)), each.name))
    return Top(endpoint=endpoint, signals=signals, rows=tuple(rows), shown=shown)


def _last_if_unknown(value: float) -> float:
    return -math.inf if math.isnan(value) else value


def run(arguments: argparse.Namespace) -> Top:
    """Run `fleet top --signals URL --endpoint NAME`; with --live until it is interrupted."""

    def found() -> Top:
        return top(
            arguments.signals,
            endpoint=arguments.endpoint,
            seconds=arguments.duration,
            sort=arguments.sort,
            artifacts=arguments.artifacts,
            shown=arguments.most,
        )

    while arguments.live and sys.stdout.isatty():
        sys.stdout.write(_CLEAR + "\n".join(found().lines()) + "\n")
        sys.stdout.flush()
        time.sleep(_EVERY_S)
    return found()
