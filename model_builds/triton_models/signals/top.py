"""`fleet top`: what each model does, as its clients see it."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from triton_models.artifact.layout import model_of_key
from triton_models.base import options as opt
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.clock import CLOCK, Clock
from triton_models.base.outcome import printable
from triton_models.base.tables import Column, in_units, numbers, table
from triton_models.facts.cost import counted
from triton_models.repository.alias import endpoint_of
from triton_models.repository.objects import opened
from triton_models.signals.counts import Counts, added
from triton_models.signals.endpoint_log import requests
from triton_models.signals.report import MINUTE_S
from triton_models.signals.stored import Signals, read

NO_SIGNALS = Check(id="no-signals", source=FROM_ARGUMENTS)

_OF_LOG = (
    "In log: what reached a model by the endpoint's log, whichever SDK sent it, and each attempt of it. The "
    "other columns are of this project's clients."
)
_NO_LOG = "The log names no requests: Triton writes them unless log_info is false in cdk.json."

_CLEAR = "\x1b[H\x1b[2J"
_EVERY_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A model, or one of its artifacts.

    Attributes:
        logged: Its requests in the endpoint's log; None if that was not read.
    """

    name: str
    counts: Counts
    logged: int | None = None


SORTS: Mapping[str, Callable[[Row], float]] = {
    "requests": lambda each: each.counts.requests,
    "failed": lambda each: each.counts.failed,
    "p50": lambda each: each.counts.percentile(0.5),
    "p99": lambda each: each.counts.percentile(0.99),
    "waited": lambda each: each.counts.waited,
    "time": lambda each: each.counts.seconds,
    "log": lambda each: each.logged or 0,
}
"""The columns by which the models can be sorted, the largest figure first."""

CELLS: Mapping[str, Callable[[Row], str]] = {
    "requests": lambda each: f"{each.counts.requests:,}",
    "failed": lambda each: f"{each.counts.failed:,}",
    "p50": lambda each: in_units(each.counts.percentile(0.5)),
    "p99": lambda each: in_units(each.counts.percentile(0.99)),
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
                    **({} if each.logged is None else {"logged": each.logged}),
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
        everything, seconds = Counts.sum(row.counts for row in self.rows), self.signals.seconds
        yield (
            f"{self.endpoint}, {seconds / 60:,.0f} min: {everything.requests:,} requests to "
            f"{counted(len(self.rows))}, of {self.signals.processes:,} processes."
        )
        yield ""
        with_log = any(each.logged is not None for each in self.rows)
        logged = sum(each.logged or 0 for each in self.rows)
        shown = [*self.rows[: self.shown], Row(name="all", counts=everything, logged=logged)]
        names = Column(title="model", cells=[each.name for each in shown])
        of_log = {"in log": lambda each: f"{each.logged:,}"} if with_log else {}
        cells = {"requests": CELLS["requests"], **of_log, **CELLS}
        cells |= {"time": lambda each: f"{each.counts.seconds / (everything.seconds or 1):.1%}"}
        errors = [", ".join(f"{name} {count:,}" for name, count in _most(each.counts)) for each in shown]
        yield from table([names, *numbers(shown, cells), Column(title="errors", cells=errors, rank=1)])
        if len(self.rows) > self.shown:
            yield f"{len(self.rows) - self.shown:,} more models: --most N, or --json for all."
        if with_log:
            yield _OF_LOG if logged else _NO_LOG
        yield from self.signals.doubts()


def _most(counts: Counts) -> list[tuple[str, int]]:
    return sorted(counts.errors.items(), key=lambda each: -each[1])


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
    log: bool = False,
) -> Top:
    """Return what the models of an endpoint did in the last seconds.

    Raises:
        FleetError: Nothing was written, or S3 or the log cannot be read.
    """
    now = time.time()
    with opened(url) as store:
        signals = read(store, endpoint, since=now - seconds)
    by_name = added(
        {artifact if artifacts else model: counts} for (model, artifact), counts in signals.counts.items()
    )
    logged: Counter[str] = Counter()
    if log:  # without the minute that is not over, which clients have not written
        asked = requests(endpoint, since=signals.since, until=now // MINUTE_S * MINUTE_S)
        logged.update(artifact if artifacts else model_of_key(artifact) for _, artifact in asked)
    if not (by_name or logged or signals.damaged):
        raise NO_SIGNALS.error(
            what=f"no client reported requests to {endpoint} in the last {seconds / 60:g} minutes",
            where=url,
            why="a minute is written when it is over, by clients that have signals=",
            fix="create them with Client(..., signals=URL), or look further back with --for",
        )
    rows = [
        Row(name=name, counts=by_name.get(name, Counts()), logged=logged[name] if log else None)
        for name in {**by_name, **logged}
    ]
    rows.sort(key=lambda each: (-_last_if_unknown(SORTS[sort](each)), each.name))
    return Top(endpoint=endpoint, signals=signals, rows=tuple(rows), shown=shown)


def _last_if_unknown(value: float) -> float:
    return -math.inf if math.isnan(value) else value


@dataclass(frozen=True, kw_only=True)
class TopOptions(opt.AccountOptions):
    """Options of `fleet top`."""

    signals: opt.Url = opt.option("where clients write, such as s3://bucket/signals/", required=True)
    alias: opt.Name | None = opt.option(opt.ALIAS, within=opt.ONE)
    endpoint: opt.Name | None = opt.option(opt.ENDPOINT, within=opt.ONE)
    profile: opt.Name | None = opt.option(opt.PROFILE, within=opt.AWS)
    region: str | None = opt.option(opt.REGION, within=opt.AWS)
    duration: opt.Duration = opt.option("how far to look back (default: 15m)", "--for", default=900.0)
    sort: str = opt.option(
        "the column to sort by",
        default="requests",
        choices=("requests", "failed", "p50", "p99", "waited", "time", "log"),
    )
    artifacts: bool = opt.flag("count the artifacts of a model apart")
    most: opt.Count = opt.option("the models to list", default=20)
    log: bool = opt.flag(
        "also count the requests in the endpoint's log, which has those of other SDKs as well"
    )
    live: bool = opt.flag("read again every 15 seconds, at a terminal")


def run(options: TopOptions) -> Top:
    """Run `fleet top --signals URL (--alias NAME | --endpoint NAME)`; --live until it is interrupted."""

    def found() -> Top:
        return top(
            options.signals,
            endpoint=endpoint_of(alias=options.alias, endpoint=options.endpoint).endpoint,
            seconds=options.duration,
            sort=options.sort,
            artifacts=options.artifacts,
            shown=options.most,
            log=options.log or options.sort == "log",
        )

    return follow(found) if options.live and sys.stdout.isatty() else found()


def follow(found: Callable[[], Top], *, clock: Clock = CLOCK) -> NoReturn:
    """Show the newest figures every 15 seconds, until it is interrupted."""
    while True:
        sys.stdout.write(_CLEAR + "\n".join(map(printable, found().lines())) + "\n")
        sys.stdout.flush()
        clock.wait(_EVERY_S)
