"""The state of an alarm on one metric: a number of datapoints beyond a threshold among the newest periods.

Read on 2026-11-23:
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = MappingProxyType(
    {
        "GreaterThanThreshold": operator.gt,
        "GreaterThanOrEqualToThreshold": operator.ge,
        "LessThanThreshold": operator.lt,
        "LessThanOrEqualToThreshold": operator.le,
    }
)


def alarm_state(alarm: Mapping[str, Any], values: Sequence[float]) -> str | None:
    """Return the state of an alarm; None if it stays as it was, because too much data is missing.

    Args:
        alarm: The alarm as DescribeAlarms shows it.
        values: The metric's values in the periods that it evaluates. Periods without data have none.
    """
    periods = int(alarm["EvaluationPeriods"])
    wanted = int(alarm.get("DatapointsToAlarm") or periods)
    beyond = _COMPARISONS[alarm["ComparisonOperator"]]
    breaching = sum(beyond(value, float(alarm["Threshold"])) for value in values)
    fine, missing = len(values) - breaching, periods - len(values)
    treatment = alarm.get("TreatMissingData", "missing")
    if treatment == "breaching":
        breaching, missing = breaching + missing, 0
    elif treatment == "notBreaching":
        fine, missing = fine + missing, 0
    if breaching >= wanted:
        return "ALARM"
    if not values and missing:
        return "INSUFFICIENT_DATA" if treatment == "missing" else None
    return "OK" if fine > periods - wanted else None
