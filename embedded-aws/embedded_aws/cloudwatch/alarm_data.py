"""The data points that the evaluation of a metric alarm reads, and the reason that it gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

from embedded_aws.clock import moment
from embedded_aws.cloudwatch.alarm_state import MORE_PERIODS, Limit, State
from embedded_aws.cloudwatch.metric_math import ExpressionError
from embedded_aws.cloudwatch.queries import Request
from embedded_aws.cloudwatch.series import MetricStore

_MINUTE_S = 60
_WORDS: Mapping[str, str] = {
    "GreaterThanThreshold": "greater than",
    "GreaterThanOrEqualToThreshold": "greater than or equal to",
    "LessThanThreshold": "less than",
    "LessThanOrEqualToThreshold": "less than or equal to",
}
_FILLED = {"breaching": "Breaching", "notBreaching": "NonBreaching"}


def limit_of(settings: Mapping[str, Any]) -> Limit:
    """Return the condition of an alarm, whose settings are those of PutMetricAlarm."""
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
    """Return the seconds between two data points of an alarm."""
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

    def state(self, limit: Limit) -> State | None:
        """Return the state of the alarm; None if it stays what it is."""
        return limit.state(self.points)

    def existing(self, periods: int) -> list[tuple[int, float]]:
        """Return the newest data points that exist, the newest first."""
        known = [
            (time, value) for time, value in zip(self.times, self.points, strict=True) if value is not None
        ]
        return known[-periods:][::-1]

    def reason(self, limit: Limit, state: State, *, before: State) -> str:
        """Return the reason for a new state, in CloudWatch's words."""
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
            f"{negated}{_WORDS[limit.comparison]} the threshold ({limit.threshold}) "
            f"(minimum {_plural(least, 'datapoint')} for {before} -> {state} transition)."
        )

    def reason_data(self, settings: Mapping[str, Any], *, at: float) -> dict[str, Any]:
        """Return what StateReasonData says."""
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
