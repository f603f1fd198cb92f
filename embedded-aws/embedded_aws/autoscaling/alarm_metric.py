"""The metric of an alarm, as a request for its newest values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

_MINUTE_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmMetric:
    """The metric of an alarm and the periods that an evaluation looks at.

    Attributes:
        queries: The metric, as queries of GetMetricData. One of them returns data.
        period: Seconds of a period.
        periods: The number of periods.
    """

    queries: list[dict[str, Any]]
    period: int
    periods: int

    @classmethod
    def of(cls, alarm: Mapping[str, Any]) -> AlarmMetric:
        """Return the metric of an alarm as DescribeAlarms shows it."""
        if alarm.get("Metrics"):
            queries = [dict(query) for query in alarm["Metrics"]]
            periods = [int(query["MetricStat"]["Period"]) for query in queries if "MetricStat" in query]
            period = max(periods, default=_MINUTE_S)
        else:
            period = int(alarm["Period"])
            queries = [{"Id": "metric", "MetricStat": _metric_stat(alarm)}]
        return cls(queries=queries, period=period, periods=int(alarm["EvaluationPeriods"]))

    def span(self, now: float) -> tuple[datetime, datetime]:
        """Return the start and the end of the periods that are complete at a moment."""
        end = int(now // self.period * self.period)
        return _moment(end - self.periods * self.period), _moment(end)


def _metric_stat(alarm: Mapping[str, Any]) -> dict[str, Any]:
    metric = {name: alarm[name] for name in ("Namespace", "MetricName")}
    stat = {
        "Metric": {**metric, "Dimensions": alarm.get("Dimensions", [])},
        "Period": int(alarm["Period"]),
        "Stat": alarm.get("Statistic") or alarm["ExtendedStatistic"],
    }
    return {**stat, "Unit": alarm["Unit"]} if alarm.get("Unit") else stat


def _moment(second: int) -> datetime:
    return datetime.fromtimestamp(second, tz=timezone.utc)
