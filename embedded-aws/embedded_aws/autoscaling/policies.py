"""The capacity that a scaling policy wants, and the alarms of one that tracks a metric.

Read on 2026-11-23, both below https://docs.aws.amazon.com/autoscaling/application/userguide/:
target-tracking-scaling-policy-overview.html and step-scaling-policy-overview.html.

The counts of periods are those of alarms that AWS created for policies of other services, which are public.
AWS documents neither these nor the threshold below which it scales in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from types import MappingProxyType
from typing import Any

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
PREDEFINED: Mapping[str, tuple[str, str, int]] = MappingProxyType(
    {
        "SageMakerVariantInvocationsPerInstance": ("InvocationsPerInstance", "Sum", _MINUTE_S),
        "SageMakerVariantConcurrentRequestsPerModelHighResolution": (
            *("ConcurrentRequestsPerModel", "Maximum"),
            10,
        ),
        "SageMakerVariantProvisionedConcurrencyUtilization": (
            *("ServerlessProvisionedConcurrencyUtilization", "Maximum"),
            _MINUTE_S,
        ),
    }
)
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
