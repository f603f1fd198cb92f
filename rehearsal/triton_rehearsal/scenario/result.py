"""The comparison of what happened in a scenario with what must hold."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from triton_models.base.suggest import did_you_mean
from triton_models.base.tables import Column, output_width, table
from triton_rehearsal.scenario.play import Observed
from triton_rehearsal.scenario.scenario import Range, Scenario

ASSUMED = (
    *("eviction-order", "disk-eviction", "routing-to-loaded", "hung-instance-replaced"),
    *("gpu-memory-of-models", "not-ready-answer"),
)
"""The ids of the beliefs of the ledger on which the behavior of rehearsed instances rests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition, and what happened.

    Attributes:
        name: Its name.
        expected: The condition, in words.
        seen: The outcome, in words.
        holds: True if it holds.
    """

    name: str
    expected: str
    seen: str
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    """The result of `fleet rehearse --scenario`.

    Attributes:
        scenario: The scenario.
        conditions: Its conditions.
    """

    scenario: Scenario
    conditions: Sequence[Condition]

    @property
    def exit_code(self) -> int:
        """0 if every condition holds, otherwise 1."""
        return 0 if all(each.holds for each in self.conditions) else 1

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON-ready data."""
        return {
            "scenario": self.scenario.name,
            "passed": self.exit_code == 0,
            "conditions": [asdict(each) for each in self.conditions],
            "assumptions": list(ASSUMED),
        }

    def lines(self) -> Iterator[str]:
        """Yield the result as a table, and the beliefs on which it rests."""
        yield f"{self.scenario.name}: {self.scenario.about}"
        rows = self.conditions
        columns = [
            Column(title="condition", cells=[each.name for each in rows]),
            Column(title="expected", cells=[each.expected for each in rows]),
            Column(title="seen", cells=[each.seen for each in rows]),
            Column(title="result", cells=["holds" if each.holds else "FAILED" for each in rows]),
        ]
        yield from (f"  {line}" for line in table(columns, width=output_width() - 2))
        yield f"On AWS it also depends on what docs/ledger.md believes: {', '.join(ASSUMED)}."


def conditions(scenario: Scenario, observed: Observed) -> Sequence[Condition]:
    """Return every condition of a scenario, with what happened."""
    return list(_conditions(scenario, observed))


def _conditions(scenario: Scenario, observed: Observed) -> Iterator[Condition]:
    expected = scenario.expected
    counted = [each for each in observed.answers if each.request.model not in expected.failing]
    answered = [each for each in counted if not each.failure]
    failures = Counter(each.failure for each in counted if each.failure)
    share = len(answered) / len(counted) if counted else 1.0
    reasons = "".join(f", {count} {rule}" for rule, count in failures.most_common())
    yield Condition(
        name="answered",
        expected=f"{expected.answered.least:.2%} at least",
        seen=f"{share:.2%} of {len(counted)}{reasons}",
        holds=share in expected.answered,
    )
    wrong = sum(not each.right for each in answered)
    yield Condition(name="wrong answers", expected="0", seen=str(wrong), holds=not wrong)
    if expected.p99 is not None:
        slowest = _percentile([each.seconds for each in answered], 99)
        yield Condition(
            name="p99", expected=f"{expected.p99} s", seen=f"{slowest:.2f} s", holds=slowest in expected.p99
        )
    for name, accepted, seen in (
        ("loads", expected.loads, observed.loads),
        ("unloads", expected.unloads, observed.unloads),
        ("replaced instances", expected.replaced, observed.replaced),
        ("most instances", expected.most_instances, observed.most_instances),
        ("instances at the end", expected.instances_at_end, observed.instances),
    ):
        if accepted is not None:
            yield _number(name, accepted, seen)
    for name in expected.alarms:
        yield _alarm(name, observed.alarms, fires=True)
    for name in expected.no_alarms:
        yield _alarm(name, observed.alarms, fires=False)
    if expected.recovers:
        lost = [each.request.model for each in observed.last if each.failure or not each.right]
        yield Condition(
            name="models that answer at the end",
            expected=str(len(observed.last)),
            seen=str(len(observed.last) - len(lost)),
            holds=not lost,
        )


def _number(name: str, accepted: Range, seen: float) -> Condition:
    return Condition(name=name, expected=str(accepted), seen=f"{seen:g}", holds=seen in accepted)


def _alarm(name: str, fired: Mapping[str, int], *, fires: bool) -> Condition:
    times = fired.get(name, 0)
    unknown = did_you_mean(name, fired, otherwise="there is no such alarm")
    return Condition(
        name=f"alarm {name}",
        expected="fires" if fires else "does not fire",
        seen=f"fired {times} times" if name in fired else unknown,
        holds=name in fired and bool(times) == fires,
    )


def _percentile(values: Sequence[float], percent: float) -> float:
    """Return a percentile by the nearest rank; 0 without values."""
    ranked = sorted(values)
    return ranked[math.ceil(len(ranked) * percent / 100) - 1] if ranked else 0.0
