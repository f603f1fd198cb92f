"""The words of an alarm: its condition, and its description."""

from __future__ import annotations

SIGNS = {
    "GreaterThanThreshold": ">",
    "GreaterThanOrEqualToThreshold": ">=",
    "LessThanThreshold": "<",
    "LessThanOrEqualToThreshold": "<=",
}
"""The comparison operators of metric alarms. Others compare with a band."""

RUNBOOK = "\n\nWhat to do: "
"""What separates the parts of a description: the meaning of the alarm, and what to do."""

_UNITS = ("%", "ms", "s", "µs")
_MINUTE_S = 60


def alarm_condition(
    label: str, *, sign: str, threshold: str, datapoints: int, periods: int, period_s: int
) -> str:
    """Return a condition such as "p99 > 1000 ms in 3 of 5 minutes".

    The label has its unit after a comma, as in "p99, ms". `datapoints` and `periods` are DatapointsToAlarm
    and EvaluationPeriods.
    """
    subject, _, unit = label.rpartition(", ")
    if unit not in _UNITS:
        subject, unit = label, ""
    value = f"{threshold} {unit}" if unit else threshold
    count = f"{datapoints} of {periods}"
    if period_s == _MINUTE_S:
        when = "1 minute" if periods == 1 else f"{count} minutes"
    else:
        minutes, rest = divmod(period_s, _MINUTE_S)
        length = f"{period_s} s" if rest else f"{minutes} minutes"
        when = f"1 period of {length}" if periods == 1 else f"{count} periods of {length}"
    return f"{subject} {sign} {value} in {when}"
