"""The figures of a run: exact percentiles from the intended moments, or why the generator was the limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from triton_models.base.encoding import Array
from triton_models.base.tables import in_units
from triton_models.load.generator import ANSWERED, Run

SLIP_S = 0.005
"""The slip of the generator at the 99th percentile from which its figures say nothing about the target."""

FULL = 0.9
"""The share of a core from which the generator is full."""

TITLES = ("", "requests", "p50", "p90", "p99", "p99.9", "largest")

_SHOWN = 20
_TENTH = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Percentiles of the times from the intended moment to the answer, in seconds."""

    count: int
    p50: float
    p90: float
    p99: float
    p999: float
    largest: float

    @classmethod
    def of(cls, seconds: Array) -> Latencies | None:
        """Return those of some times; None without any."""
        if not len(seconds):
            return None
        p50, p90, p99, p999, largest = np.percentile(seconds, [50, 90, 99, 99.9, 100], method="inverted_cdf")
        return cls(
            count=len(seconds),
            p50=float(p50),
            p90=float(p90),
            p99=float(p99),
            p999=float(p999),
            largest=float(largest),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """How the generator did.

    Attributes:
        slip_p99: How late it sent, in seconds.
        slip_largest: The same of the latest request.
        cpu: The share of a core that it used, in its busiest second.
        limit: Why the generator was the limit; "" if it was not.
    """

    slip_p99: float
    slip_largest: float
    cpu: float
    limit: str

    @classmethod
    def of(cls, run: Run) -> Generator:
        """Return how the generator of a run did."""
        slip = (run.sent - run.schedule.at)[~np.isnan(run.sent)]
        p99 = float(np.percentile(slip, 99, method="inverted_cdf")) if len(slip) else 0.0
        cpu = float(run.cpu.max()) if len(run.cpu) else 0.0
        reasons = []
        if p99 > SLIP_S:
            reasons.append(f"one request in a hundred was sent {p99 * 1e3:,.1f} ms late or more")
        if cpu > FULL:
            reasons.append(f"it used {cpu:.0%} of a core")
        return cls(
            slip_p99=p99,
            slip_largest=float(slip.max()) if len(slip) else 0.0,
            cpu=cpu,
            limit=", and ".join(reasons),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFigures:
    """A model of a run."""

    model: str
    requests: int
    failed: int
    first: Latencies | None
    warm: Latencies | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a run found.

    Attributes:
        seconds: The time from the beginning to the last answer.
        answered_per_second: The answers over that time.
        drift_s: How much longer the last tenth of the answers took than the first tenth, in the median.
        first: The requests to a model that were sent before its first answer: they may have waited to load.
        warm: The other ones that were answered; None if the generator was the limit.
        errors: The number of requests that failed, by kind.
        files: Where the schedule and all requests are, if they were written.
    """

    target: str
    seed: int | None
    requests: int
    seconds: float
    answered_per_second: float
    drift_s: float
    generator: Generator
    first: Latencies | None
    warm: Latencies | None
    errors: Mapping[str, int]
    models: Sequence[ModelFigures]
    stopped: bool
    files: Path | None = None

    @property
    def exit_code(self) -> int:
        """0 if the figures are about the target, 1 if the generator was the limit or nothing was answered."""
        return 1 if self.generator.limit or self.stopped or (self.first is None and self.warm is None) else 0

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as JSON-ready data."""
        return {**asdict(self), "files": str(self.files) if self.files else None}

    def lines(self) -> Iterator[str]:
        """Yield the figures as a table, errors by kind, and how the generator did."""
        failed = sum(self.errors.values())
        yield (
            f"{self.requests:,} requests to {self.target} in {self.seconds:,.1f} s: "
            f"{self.answered_per_second:,.1f} answers per second, {failed:,} errors"
        )
        if self.stopped:
            yield "The run was ended early."
        if self.generator.limit:
            yield f"The generator was the limit: {self.generator.limit}. There are no figures of the target."
        else:
            yield from _table([("warm", self.warm), ("before a first answer", self.first)])
            if len(self.models) > 1:
                shown = sorted(self.models, key=lambda each: -each.requests)[:_SHOWN]
                yield ""
                yield from _table([(each.model, each.warm or each.first) for each in shown])
        for kind, count in sorted(self.errors.items(), key=lambda each: -each[1]):
            yield f"{count:,} errors: {kind}"
        yield (
            f"The generator sent 99 % at most {self.generator.slip_p99 * 1e3:.1f} ms late, the latest "
            f"{self.generator.slip_largest * 1e3:.1f} ms, with {self.generator.cpu:.0%} of a core."
        )
        if self.files is not None:
            yield f"A page about it, the schedule and all requests are in {self.files}"


def cells(rows: Sequence[tuple[str, Latencies | None]]) -> list[tuple[str, ...]]:
    """Return the rows of a table with `TITLES`, without those that have no latencies."""
    return [
        (
            name,
            f"{latencies.count:,}",
            *map(in_units, (latencies.p50, latencies.p90, latencies.p99, latencies.p999, latencies.largest)),
        )
        for name, latencies in rows
        if latencies is not None
    ]


def _table(rows: Sequence[tuple[str, Latencies | None]]) -> Iterator[str]:
    width = max(len(name) for name, _ in rows)
    if shown := cells(rows):
        for name, *texts in (TITLES, *shown):
            yield f"{name:{width}}" + "".join(f"  {text:>9}" for text in texts)


def loaded(run: Run, *, target: str, seed: int | None) -> Loaded:
    """Return the figures of a run."""
    at, model = run.schedule.at, run.schedule.model
    seconds, answered = run.done - at, run.kind == ANSWERED
    first_done = np.full(len(run.schedule.models), np.inf)
    np.minimum.at(first_done, model[answered], run.done[answered])
    early = answered & (run.sent < first_done[model])
    warm = answered & ~early
    generator = Generator.of(run)
    length_s = float(np.nanmax(run.done, initial=0.0)) if len(at) else 0.0
    models = []
    for index, name in enumerate(run.schedule.models):
        of_model = model == index
        if of_model.any():
            models.append(
                ModelFigures(
                    model=name,
                    requests=int(of_model.sum()),
                    failed=int((run.kind[of_model] > ANSWERED).sum()),
                    first=None if generator.limit else Latencies.of(seconds[of_model & early]),
                    warm=None if generator.limit else Latencies.of(seconds[of_model & warm]),
                )
            )
    return Loaded(
        target=target,
        seed=seed,
        requests=int((~np.isnan(run.sent)).sum()),
        seconds=length_s,
        answered_per_second=float(answered.sum()) / length_s if length_s else 0.0,
        drift_s=_drift(seconds[answered]),
        generator=generator,
        first=None if generator.limit else Latencies.of(seconds[early]),
        warm=None if generator.limit else Latencies.of(seconds[warm]),
        errors={kind: int((run.kind == index).sum()) for index, kind in enumerate(run.kinds, start=1)},
        models=models,
        stopped=run.stopped,
    )


def _drift(seconds: Array) -> float:
    tenth = len(seconds) // _TENTH
    return float(np.median(seconds[-tenth:]) - np.median(seconds[:tenth])) if tenth else 0.0
