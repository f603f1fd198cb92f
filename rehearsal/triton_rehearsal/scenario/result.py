"""The comparison of what happened in a scenario with what must hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from triton_models.base.encoding import Array
from triton_models.base.suggest import did_you_mean
from triton_models.base.tables import Column, output_width, table
from triton_models.load.result import Latencies
from triton_rehearsal.scenario.play import Observed
from triton_rehearsal.scenario.scenario import Scenario, target_of

ASSUMED = (
    *("eviction-order", "disk-eviction", "routing-to-loaded", "hung-instance-replaced"),
    *("gpu-memory-of-models", "not-ready-answer"),
)
"""The ids of the beliefs on which the behavior of rehearsed instances rests."""

_MOST_ROWS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition, and what happened."""

    name: str
    expected: str
    seen: str
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of a model, or of all models."""

    model: str
    requests: int
    answered: int
    p50_s: float | None  # the longest time of half of the answered requests, with retries
    p99_s: float | None
    cold_percent: float  # of invocations, repeated ones included
    loads: int
    evictions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    """The result of `fleet rehearse --scenario`."""

    scenario: Scenario
    conditions: Sequence[Condition]
    figures: Figures
    models: Sequence[Figures]
    instances: Sequence[tuple[float, int]]  # at the start and after each change, with the seconds since then

    @classmethod
    def of(cls, scenario: Scenario, observed: Observed) -> ScenarioResult:
        """Return the result of what happened."""
        names = [target_of(number) for number in range(1, scenario.models + 1)]
        asked = observed.run.schedule.model
        times = np.where(observed.answered, observed.seconds, np.nan)
        return cls(
            scenario=scenario,
            conditions=list(_conditions(scenario, observed)),
            figures=_figures("all", observed, names, times),
            models=[
                _figures(name, observed, [name], times[asked == index]) for index, name in enumerate(names)
            ],
            instances=observed.instances,
        )

    @property
    def exit_code(self) -> int:
        """0 if every condition holds, otherwise 1."""
        return 0 if all(each.holds for each in self.conditions) else 1

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON-ready data."""
        return {
            "scenario": self.scenario.name,
            "about": self.scenario.about,
            "passed": self.exit_code == 0,
            "speed": self.scenario.speed,
            "conditions": [asdict(each) for each in self.conditions],
            "figures": asdict(self.figures),
            "models": [asdict(each) for each in self.models],
            "instances": [
                {"minutes": _minutes(seconds, self.scenario.speed), "seconds": seconds, "count": count}
                for seconds, count in self.instances
            ],
            "pace": pace(self.scenario),
            "assumptions": list(ASSUMED),
        }

    def lines(self) -> Iterator[str]:
        """Yield the verdict, the story, the conditions, the figures, and the beliefs on which they rest."""
        failed = sum(not each.holds for each in self.conditions)
        verdict = f"FAILED: {failed} of {len(self.conditions)} conditions" if failed else "passed"
        yield f"{self.scenario.name} {verdict}. {self.scenario.about}"
        rows = self.conditions
        columns = [
            Column(title="condition", cells=[each.name for each in rows]),
            Column(title="expected", cells=[each.expected for each in rows]),
            Column(title="seen", cells=[each.seen for each in rows]),
            Column(title="result", cells=["holds" if each.holds else "FAILED" for each in rows]),
        ]
        yield from (f"  {line}" for line in table(columns, width=output_width() - 2))
        slowest = sorted(self.models, key=lambda each: -(each.p99_s or 0.0))[:_MOST_ROWS]
        of_models = self.models if len(self.models) <= _MOST_ROWS else slowest
        yield from ("", *(f"  {line}" for line in _table([self.figures, *of_models])))
        if of_models is slowest:
            yield f"  The {_MOST_ROWS} slowest of {len(self.models)} models; --json has all."
        yield ""
        yield f"Instances: {_over_time(self.instances, self.scenario.speed)}."
        yield pace(self.scenario)
        yield f"On AWS it also depends on beliefs of Triton Fleet: {', '.join(ASSUMED)}."


def pace(scenario: Scenario) -> str:
    """Return at which speed a scenario runs, and what does not run as fast."""
    if scenario.speed == 1:
        return "Speed: 1. Alarms and scaling ran at AWS's pace."
    speed = scenario.speed
    return (
        f"Speed: {speed}. A minute of alarms and scaling took {60 / speed:.3g} s, and each request counted "
        f"as {speed}. Loads took this machine's time: a second is {speed} seconds of the alarms."
    )


def _figures(model: str, observed: Observed, targets: Sequence[str], seconds: Array) -> Figures:
    """Return the figures of some requests, whose times are NaN without an answer."""
    times = Latencies.of(seconds[~np.isnan(seconds)])
    cold = sum(observed.cold[target] for target in targets)
    invoked = cold + sum(observed.warm[target] for target in targets)
    return Figures(
        model=model,
        requests=len(seconds),
        answered=times.count if times else 0,
        p50_s=round(times.p50, 3) if times else None,
        p99_s=round(times.p99, 3) if times else None,
        cold_percent=round(100 * cold / invoked, 1) if invoked else 0.0,
        loads=sum(observed.loads[target] for target in targets),
        evictions=sum(observed.unloads[target] for target in targets),
    )


def _table(rows: Sequence[Figures]) -> Iterator[str]:
    shown: Mapping[str, Sequence[str]] = {
        "requests": [str(each.requests) for each in rows],
        "answered": [str(each.answered) for each in rows],
        "p50 s": ["-" if each.p50_s is None else f"{each.p50_s:.2f}" for each in rows],
        "p99 s": ["-" if each.p99_s is None else f"{each.p99_s:.2f}" for each in rows],
        "cold": [f"{each.cold_percent:g} %" for each in rows],
        "loads": [str(each.loads) for each in rows],
        "evictions": [str(each.evictions) for each in rows],
    }
    models = Column(title="model", cells=[each.model.removesuffix(".tar.gz") for each in rows])
    numbers = [Column(title=title, cells=cells, right=True) for title, cells in shown.items()]
    yield from table([models, *numbers], width=output_width() - 2)


def _over_time(instances: Sequence[tuple[float, int]], speed: int) -> str:
    first, *later = instances
    changes = (f"{count} after {_minutes(seconds, speed):g} minutes" for seconds, count in later)
    return ", ".join([str(first[1]), *changes])


def _minutes(seconds: float, speed: int) -> float:
    # Minutes of alarms and scaling, of seconds of the wall clock.
    return round(seconds * speed / 60, 1)


def _conditions(scenario: Scenario, observed: Observed) -> Iterator[Condition]:
    expected = scenario.expect
    run, failing = observed.run, np.array(expected.failing_models, int) - 1
    counted = ~np.isin(run.schedule.model, failing)
    answered, wrong = counted & observed.answered, int((observed.wrong & counted).sum())
    failures = Counter(run.kinds[kind - 1] for kind in run.kind[counted & ~observed.answered].tolist())
    share = answered.sum() / counted.sum() if counted.any() else 1.0
    reasons = "".join(f", {count} {rule}" for rule, count in failures.most_common())
    yield Condition(
        name="answered",
        expected=f"{expected.answered_percent:.2f}% at least",
        seen=f"{share:.2%} of {counted.sum()}{reasons}",
        holds=bool(share >= expected.answered_percent / 100),
    )
    yield Condition(name="wrong answers", expected="0", seen=str(wrong), holds=not wrong)
    if expected.p99_seconds is not None:
        times = Latencies.of(observed.seconds[answered])
        slowest = times.p99 if times else 0.0
        yield Condition(
            name="p99",
            expected=f"at most {expected.p99_seconds:g} s",
            seen=f"{slowest:.2f} s",
            holds=slowest <= expected.p99_seconds,
        )
    for name, accepted, seen in (
        ("loads", expected.loads, observed.loads.total()),
        ("unloads", expected.unloads, observed.unloads.total()),
        ("replaced instances", expected.replaced_instances, observed.replaced),
        ("most instances", expected.most_instances, max(count for _, count in observed.instances)),
        ("instances at the end", expected.instances_at_end, observed.instances_at_end),
    ):
        if accepted is not None:
            yield Condition(name=name, expected=str(accepted), seen=f"{seen:g}", holds=seen in accepted)
    for name in expected.alarms:
        yield _alarm(name, observed.alarms, fires=True)
    for name in expected.no_alarms:
        yield _alarm(name, observed.alarms, fires=False)
    if expected.recovers:
        lost = [model for model, error in observed.last.items() if error]
        yield Condition(
            name="models that answer at the end",
            expected=str(len(observed.last)),
            seen=str(len(observed.last) - len(lost)),
            holds=not lost,
        )


def _alarm(name: str, fired: Mapping[str, int], *, fires: bool) -> Condition:
    times = fired.get(name, 0)
    counted = f"fired {times} times" if times > 1 else "fired once" if times else "did not fire"
    unknown = did_you_mean(name, fired, otherwise="there is no such alarm")
    return Condition(
        name=f"alarm {name}",
        expected="fires" if fires else "does not fire",
        seen=counted if name in fired else unknown,
        holds=name in fired and bool(times) == fires,
    )
