"""The states of alarms with their reasons: M of the newest N data points, and rules about other alarms.

The rules and their examples are those of "Evaluating an alarm" and "How alarm state is evaluated when data is
missing". The rule of a composite alarm has the states of other alarms with AND, OR and NOT; NOT binds more
strongly than AND, and AND more strongly than OR. Read on 2026-11-23:
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation.html
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutCompositeAlarm.html
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Literal, TypeAlias

from embedded_aws.clock import moment
from embedded_aws.cloudwatch.metric_math import ExpressionError
from embedded_aws.cloudwatch.queries import Request
from embedded_aws.cloudwatch.series import MetricStore
from embedded_aws.syntax import Logic

State: TypeAlias = Literal["OK", "ALARM", "INSUFFICIENT_DATA"]

MORE_PERIODS = 2
"""The periods of an evaluation range beyond the evaluation periods, as in the examples of the guide."""

_COMPARISONS: Mapping[str, tuple[Callable[[float, float], bool], str]] = {
    "GreaterThanThreshold": (operator.gt, "greater than"),
    "GreaterThanOrEqualToThreshold": (operator.ge, "greater than or equal to"),
    "LessThanThreshold": (operator.lt, "less than"),
    "LessThanOrEqualToThreshold": (operator.le, "less than or equal to"),
}

COMPARISONS = tuple(_COMPARISONS)
"""The comparisons with a fixed threshold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The condition of an alarm: of N data points, `periods`, M must breach the threshold, `to_alarm`."""

    comparison: str
    threshold: float
    periods: int
    to_alarm: int
    missing: str = "missing"

    def breached(self, value: float) -> bool:
        return _COMPARISONS[self.comparison][0](value, self.threshold)

    def state(self, points: Sequence[float | None]) -> State | None:
        """Return the state of the alarm; None if it stays what it is."""
        values = [value for value in points if value is not None][-self.periods :]
        breaching = sum(map(self.breached, values))
        if len(values) < self.periods:
            if self.missing == "breaching":
                breaching += self.periods - len(values)
            elif self.missing != "notBreaching":
                return self._of_few(points, breaching, len(values) - breaching)
        return "ALARM" if breaching >= self.to_alarm else "OK"

    def _of_few(self, points: Sequence[float | None], breaching: int, fine: int) -> State | None:
        """Return the state if missing points stay missing.

        If all points breach, there is an alarm as soon as the oldest is M periods old, however few they are.
        """
        if breaching >= self.to_alarm:
            return "ALARM"
        if fine:
            return "OK"
        if self.missing == "ignore":
            return None
        age = next((len(points) - index for index, each in enumerate(points) if each is not None), 0)
        return "ALARM" if breaching and age >= self.to_alarm else "INSUFFICIENT_DATA"


_STATE = re.compile(r"\b(ALARM|OK|INSUFFICIENT_DATA)\s*\(\s*(?:\"([^\"]+)\"|'([^']+)'|([^\s()\"']+))\s*\)")


class Rule:
    def __init__(self, text: str) -> None:
        self._logic = Logic(text, _STATE)
        self.alarms = tuple(dict.fromkeys(map(_alarm, self._logic.conditions)))

    def holds(self, states: Mapping[str, str]) -> bool:
        """Return True if the rule holds. An alarm that does not exist has insufficient data."""
        return self._logic.holds(lambda each: states.get(_alarm(each), "INSUFFICIENT_DATA") == each[1])


def _alarm(condition: re.Match[str]) -> str:
    return str(condition[2] or condition[3] or condition[4]).rsplit(":alarm:", 1)[-1]


_MINUTE_S = 60
_FILLED = {"breaching": "Breaching", "notBreaching": "NonBreaching"}


def limit_of(settings: Mapping[str, Any]) -> Limit:
    periods = int(settings["EvaluationPeriods"])
    return Limit(
        comparison=settings["ComparisonOperator"],
        threshold=float(settings["Threshold"]),
        periods=periods,
        to_alarm=int(settings.get("DatapointsToAlarm") or periods),
        missing=settings.get("TreatMissingData") or "missing",
    )


def queries_of(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    if settings.get("Metrics"):
        return [dict(query) for query in settings["Metrics"]]
    metric = {name: settings[name] for name in ("Namespace", "MetricName")}
    stat = {
        "Metric": {**metric, "Dimensions": settings.get("Dimensions") or []},
        "Period": int(settings["Period"]),
        "Stat": settings.get("Statistic") or settings["ExtendedStatistic"],
    }
    if settings.get("Unit"):
        stat["Unit"] = settings["Unit"]
    return [{"Id": "m1", "MetricStat": stat, "ReturnData": True}]


def period_of(settings: Mapping[str, Any]) -> int:
    periods = [query.get("MetricStat", query).get("Period") for query in queries_of(settings)]
    return max((int(period) for period in periods if period), default=_MINUTE_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The data points of an evaluation range, the oldest first."""

    times: Sequence[int]
    points: Sequence[float | None]
    period: int

    @classmethod
    def of(cls, store: MetricStore, settings: Mapping[str, Any], *, at: float) -> Reading:
        """Read the periods of an alarm that are complete at a time, in seconds since 1970.

        Periods of more than a minute may begin at any minute, as CloudWatch looks at alarms every minute.
        """
        period, limit = period_of(settings), limit_of(settings)
        step = min(period, _MINUTE_S)
        end = int(at // step * step)
        start = end - period * (limit.periods + MORE_PERIODS)
        try:
            lines = [line for _, line in Request(store, queries_of(settings), start=start, end=end).results()]
        except ExpressionError:
            lines = []
        times = range(start, end, period)
        points = [lines[0].points.get(time) if lines else None for time in times]
        return cls(times=times, points=points, period=period)

    def existing(self, periods: int) -> list[tuple[int, float]]:
        """Return the newest data points that exist, the newest first."""
        known = [
            (time, value) for time, value in zip(self.times, self.points, strict=True) if value is not None
        ]
        return known[-periods:][::-1]

    def reason(self, limit: Limit, state: State, *, before: State) -> str:
        known = self.existing(limit.periods)
        if state == "INSUFFICIENT_DATA":
            return f"Insufficient Data: {_count(limit.periods, 'datapoint')} unknown."
        if not known:
            filled = _FILLED.get(limit.missing, "Missing")
            missing = _count(limit.periods, "missing datapoint")
            periods = _plural(limit.periods, "period")
            return (
                f"Threshold Crossed: no datapoints were received for {periods} and {missing} "
                f"treated as [{filled}]."
            )
        chosen = [limit.breached(value) is (state == "ALARM") for _, value in known]
        shown = list(compress(known, chosen)) or known
        values = ", ".join(f"{value} ({moment(time):%d/%m/%y %H:%M:%S})" for time, value in shown)
        verb = "was" if len(shown) == 1 else "were"
        negated = "" if state == "ALARM" else "not "
        least = limit.to_alarm if state == "ALARM" else limit.periods - limit.to_alarm + 1
        return (
            f"Threshold Crossed: {len(shown)} out of the last {limit.periods} datapoints [{values}] {verb} "
            f"{negated}{_COMPARISONS[limit.comparison][1]} the threshold ({limit.threshold}) "
            f"(minimum {_plural(least, 'datapoint')} for {before} -> {state} transition)."
        )

    def reason_data(self, settings: Mapping[str, Any], *, at: float) -> dict[str, Any]:
        limit = limit_of(settings)
        known = self.existing(limit.periods)
        data: dict[str, Any] = {"version": "1.0", "queryDate": stamp(at)}
        if known:
            data["startDate"] = stamp(known[-1][0])
        if statistic := settings.get("Statistic") or settings.get("ExtendedStatistic"):
            data["statistic"] = statistic
        return {
            **data,
            "period": self.period,
            "recentDatapoints": [value for _, value in reversed(known)],
            "threshold": limit.threshold,
            "evaluatedDatapoints": [{"timestamp": stamp(time), "value": value} for time, value in known],
        }


def stamp(seconds: float) -> str:
    """Return a time, in seconds since 1970, as CloudWatch's JSON has it."""
    return f"{moment(seconds).isoformat(timespec='milliseconds').removesuffix('+00:00')}+0000"


def _plural(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _count(number: int, word: str) -> str:
    return f"{_plural(number, word)} {'was' if number == 1 else 'were'}"
