"""The states of alarms: M of the newest N data points, and rules about other alarms.

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
from types import MappingProxyType
from typing import Literal, TypeAlias

from embedded_aws.syntax import Logic

State: TypeAlias = Literal["OK", "ALARM", "INSUFFICIENT_DATA"]

MORE_PERIODS = 2
"""The periods of an evaluation range beyond the evaluation periods, as in the examples of the guide."""

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = MappingProxyType(
    {
        "GreaterThanThreshold": operator.gt,
        "GreaterThanOrEqualToThreshold": operator.ge,
        "LessThanThreshold": operator.lt,
        "LessThanOrEqualToThreshold": operator.le,
    }
)

COMPARISONS = tuple(_COMPARISONS)
"""The comparisons with a fixed threshold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The condition of an alarm.

    Attributes:
        comparison: The operator, such as `GreaterThanThreshold`.
        threshold: The number with which values are compared.
        periods: The number of data points that count, N.
        to_alarm: The number of these that must breach the threshold, M.
        missing: The treatment of missing data: `missing`, `ignore`, `breaching` or `notBreaching`.
    """

    comparison: str
    threshold: float
    periods: int
    to_alarm: int
    missing: str = "missing"

    def breached(self, value: float) -> bool:
        return _COMPARISONS[self.comparison](value, self.threshold)

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
    """The rule of a composite alarm."""

    def __init__(self, text: str) -> None:
        self._logic = Logic(text, _STATE)
        self.alarms = tuple(dict.fromkeys(map(_alarm, self._logic.conditions)))

    def holds(self, states: Mapping[str, str]) -> bool:
        """Return True if the rule holds. An alarm that does not exist has insufficient data."""
        return self._logic.holds(lambda each: states.get(_alarm(each), "INSUFFICIENT_DATA") == each[1])


def _alarm(condition: re.Match[str]) -> str:
    """Return the name of an alarm that is given by its name or ARN."""
    return str(condition[2] or condition[3] or condition[4]).rsplit(":alarm:", 1)[-1]
