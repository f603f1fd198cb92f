"""The capacity that a scaling policy wants, the alarms of one that tracks a metric, and times of schedules.

Read on 2026-11-23, all below https://docs.aws.amazon.com/autoscaling/application/userguide/:
target-tracking-scaling-policy-overview.html, step-scaling-policy-overview.html and
scheduled-scaling-using-cron-expressions.html, of which the days L, W and # are refused.

The counts of periods are those of alarms that AWS created for policies of other services, which are public.
AWS documents neither these nor the threshold below which it scales in.
"""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from statistics import fmean
from typing import Any
from zoneinfo import ZoneInfo

DEFAULT_COOLDOWN_S = 300
"""AWS's default for variants of endpoints, for both directions."""

_AGGREGATIONS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "Average": fmean,
    "Minimum": min,
    "Maximum": max,
}
_WHOLE = 100


def tracked_capacity(configuration: Mapping[str, Any], *, value: float, capacity: int) -> int:
    """Return the capacity with which a metric would be at its target, rounded up."""
    # The margin keeps 3 * 70 / 70 at three, whatever the last bit says.
    return math.ceil(capacity * value / float(configuration["TargetValue"]) - 1e-9)


def stepped_capacity(
    configuration: Mapping[str, Any], *, values: Sequence[float], threshold: float, capacity: int
) -> int | None:
    """Return the capacity that a step wants; None if the metric is in none of the steps."""
    breach = _AGGREGATIONS[configuration.get("MetricAggregationType") or "Average"](values) - threshold
    for step in configuration["StepAdjustments"]:
        if _has(step, breach):
            return _adjusted(configuration, int(step["ScalingAdjustment"]), capacity)
    return None


def _has(step: Mapping[str, Any], breach: float) -> bool:
    """Return True if a breach is within a step, which includes the bound that is nearer to the threshold."""
    lower = step.get("MetricIntervalLowerBound")
    upper = step.get("MetricIntervalUpperBound")
    least = -math.inf if lower is None else float(lower)
    most = math.inf if upper is None else float(upper)
    return least <= breach < most if least >= 0 else least < breach <= most


def _adjusted(configuration: Mapping[str, Any], adjustment: int, capacity: int) -> int:
    kind = configuration["AdjustmentType"]
    if kind == "ExactCapacity":
        return adjustment
    if kind == "ChangeInCapacity":
        return capacity + adjustment
    # Rounded towards zero, but never to zero: 12.7 is 12, and 0.67 is 1.
    change = int(capacity * adjustment / _WHOLE)
    least = max(1, int(configuration.get("MinAdjustmentMagnitude") or 1)) if adjustment else 0
    size = max(abs(change), least)
    return capacity + (size if adjustment > 0 else -size)


HIGH_PERIODS = 3
LOW_PERIODS = 15
LOW_SHARE = 0.9
"""The share of the target below which a policy removes capacity."""

_MINUTE_S = 60


# https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-add-policy.html, read 2026-11-23.
_VARIANT = "SageMakerVariant"
PREDEFINED: Mapping[str, tuple[str, str, int]] = {
    f"{_VARIANT}InvocationsPerInstance": ("InvocationsPerInstance", "Sum", _MINUTE_S),
    f"{_VARIANT}ConcurrentRequestsPerModelHighResolution": ("ConcurrentRequestsPerModel", "Maximum", 10),
    f"{_VARIANT}ProvisionedConcurrencyUtilization": (
        *("ServerlessProvisionedConcurrencyUtilization", "Maximum"),
        _MINUTE_S,
    ),
}
"""The metric of all instances of a variant, its statistic and period, by the predefined type."""


def tracking_alarms(
    configuration: Mapping[str, Any], *, resource_id: str, action: str
) -> Iterator[dict[str, Any]]:
    """Yield the alarms of a policy. Their names lack the id at the end."""
    target = float(configuration["TargetValue"])
    metric = _metric(configuration, resource_id)
    common = {
        "AlarmDescription": f"DO NOT EDIT OR DELETE. For TargetTrackingScaling policy {action}.",
        "ActionsEnabled": True,
        "AlarmActions": [action],
        **metric,
    }
    yield {
        **common,
        "AlarmName": f"TargetTracking-{resource_id}-AlarmHigh",
        "ComparisonOperator": "GreaterThanThreshold",
        "EvaluationPeriods": HIGH_PERIODS,
        "Threshold": target,
    }
    if not configuration.get("DisableScaleIn"):
        yield {
            **common,
            "AlarmName": f"TargetTracking-{resource_id}-AlarmLow",
            "ComparisonOperator": "LessThanThreshold",
            "EvaluationPeriods": LOW_PERIODS * _MINUTE_S // metric.get("Period", _MINUTE_S),
            "Threshold": target * LOW_SHARE,
        }


def _metric(configuration: Mapping[str, Any], resource_id: str) -> dict[str, Any]:
    given = configuration.get("CustomizedMetricSpecification")
    if given is None:
        return _predefined(configuration["PredefinedMetricSpecification"], resource_id)
    if given.get("Metrics"):
        return {"Metrics": [_query(each) for each in given["Metrics"]]}
    fields = {name: given[name] for name in ("Namespace", "MetricName", "Statistic", "Unit") if name in given}
    return {**fields, "Dimensions": given.get("Dimensions", []), "Period": _MINUTE_S}


def _predefined(given: Mapping[str, Any], resource_id: str) -> dict[str, Any]:
    name, statistic, period = PREDEFINED[given["PredefinedMetricType"]]
    _, endpoint, _, variant = resource_id.split("/")
    return {
        "Namespace": "AWS/SageMaker",
        "MetricName": name,
        "Statistic": statistic,
        "Period": period,
        "Dimensions": [
            {"Name": "EndpointName", "Value": endpoint},
            {"Name": "VariantName", "Value": variant},
        ],
    }


def _query(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a query of metric math. Those of policies have no period: it is a minute."""
    query = dict(given)
    if "MetricStat" in query:
        query["MetricStat"] = {"Period": _MINUTE_S, **query["MetricStat"]}
    elif "Expression" in query:
        query = {"Period": _MINUTE_S, **query}
    return query


_FORM = re.compile(r"(at|rate|cron)\((.*)\)")
_RATE = re.compile(r"(\d+) (minute|hour|day)s?")
_UNITS = {"minute": 60, "hour": 3600, "day": 86400}
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_FIELDS = 6
_HORIZON_DAYS = 366 * 5


class ScheduleError(ValueError):
    """A schedule that Application Auto Scaling does not understand."""


def next_time(schedule: str, *, after: datetime, start: datetime, zone: str = "UTC") -> datetime | None:
    """Return the first time of a schedule after a moment; None if there is none within five years."""
    form = _FORM.fullmatch(schedule.strip())
    if form is None:
        raise ScheduleError(schedule)
    kind, text = form.groups()
    if kind == "at":
        moment = _moment(text, zone)
        return moment if moment > after else None
    if kind == "rate":
        return _next_of_rate(text, after, start)
    return next((moment for moment in _crontab(text, after, ZoneInfo(zone)) if moment > after), None)


def _moment(text: str, zone: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=ZoneInfo(zone))
    except ValueError as error:
        raise ScheduleError(text) from error


def _next_of_rate(text: str, after: datetime, start: datetime) -> datetime:
    found = _RATE.fullmatch(text)
    if found is None or not int(found[1]):
        raise ScheduleError(text)
    interval = timedelta(seconds=int(found[1]) * _UNITS[found[2]])
    return start + interval * max(0, (after - start) // interval + 1)


def _crontab(text: str, after: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    fields = text.split()
    if len(fields) != _FIELDS:
        raise ScheduleError(text)
    minutes, hours = _values(fields[0], 0, 59), _values(fields[1], 0, 23)
    first = after.astimezone(zone).date()
    for day in (first + timedelta(days=number) for number in range(_HORIZON_DAYS)):
        if _on_day(fields[2:], day.year, day.month, day.day):
            for hour in hours:
                for minute in minutes:
                    local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
                    yield local.astimezone(timezone.utc)


def _on_day(fields: Sequence[str], year: int, month: int, day: int) -> bool:
    days, months, weekdays, years = fields
    # Sunday is 1.
    weekday = (calendar.weekday(year, month, day) + 1) % 7 + 1
    return (
        year in _values(years, 1970, 2199)
        and month in _values(months, 1, 12, names=_MONTHS)
        and (days == "?" or day in _values(days, 1, 31))
        and (weekdays == "?" or weekday in _values(weekdays, 1, 7, names=_WEEKDAYS))
    )


def _values(field: str, least: int, most: int, *, names: Sequence[str] = ()) -> list[int]:
    """Return the numbers of a field such as `*`, `0/15`, `MON-FRI` or `1,5`."""
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        low, _, high = span.partition("-")
        try:
            first = least if low == "*" else _number(low, names)
            last = most if low == "*" or (step and not high) else _number(high or low, names)
            numbers = range(first, last + 1, int(step or 1))
        except ValueError as error:
            raise ScheduleError(field) from error
        if not numbers or numbers[0] < least or numbers[-1] > most:
            raise ScheduleError(field)
        found.update(numbers)
    return sorted(found)


def _number(text: str, names: Sequence[str]) -> int:
    return names.index(text.upper()) + 1 if text.upper() in names else int(text)
