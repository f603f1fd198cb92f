"""The capacity that a scaling policy wants.

Read on 2026-11-23, both below https://docs.aws.amazon.com/autoscaling/application/userguide/:
target-tracking-scaling-policy-overview.html and step-scaling-policy-overview.html.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

DEFAULT_COOLDOWN_S = 300
"""AWS's default for variants of endpoints, for both directions."""

_AGGREGATIONS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "Average": fmean,
    "Minimum": min,
    "Maximum": max,
}
_WHOLE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The capacities between which a target stays."""

    least: int
    most: int

    def within(self, capacity: int) -> int:
        """Return the closest capacity within the bounds."""
        return max(self.least, min(self.most, capacity))


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
