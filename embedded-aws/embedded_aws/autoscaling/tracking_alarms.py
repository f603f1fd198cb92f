"""The two alarms of a target tracking policy, in the form of PutMetricAlarm.

The counts of periods are those of alarms that AWS created for policies of other services, which are public.
AWS documents neither these nor the threshold below which it scales in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

HIGH_PERIODS = 3
LOW_PERIODS = 15
LOW_SHARE = 0.9
"""The share of the target below which a policy removes capacity."""

_MINUTE_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class _Predefined:
    """The metric behind a predefined type, of all instances of a variant."""

    name: str
    statistic: str
    period: int = _MINUTE_S


# https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-add-policy.html, read 2026-11-23.
PREDEFINED: Mapping[str, _Predefined] = MappingProxyType(
    {
        "SageMakerVariantInvocationsPerInstance": _Predefined(name="InvocationsPerInstance", statistic="Sum"),
        "SageMakerVariantConcurrentRequestsPerModelHighResolution": _Predefined(
            name="ConcurrentRequestsPerModel", statistic="Maximum", period=10
        ),
        "SageMakerVariantProvisionedConcurrencyUtilization": _Predefined(
            name="ServerlessProvisionedConcurrencyUtilization", statistic="Maximum"
        ),
    }
)
"""The metrics of variants, by the predefined type."""


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
    """Return the fields of an alarm on a policy's metric."""
    given = configuration.get("CustomizedMetricSpecification")
    if given is None:
        return _predefined(configuration["PredefinedMetricSpecification"], resource_id)
    if given.get("Metrics"):
        return {"Metrics": [_query(each) for each in given["Metrics"]]}
    fields = {name: given[name] for name in ("Namespace", "MetricName", "Statistic", "Unit") if name in given}
    return {**fields, "Dimensions": given.get("Dimensions", []), "Period": _MINUTE_S}


def _predefined(given: Mapping[str, Any], resource_id: str) -> dict[str, Any]:
    metric = PREDEFINED[given["PredefinedMetricType"]]
    _, endpoint, _, variant = resource_id.split("/")
    return {
        "Namespace": "AWS/SageMaker",
        "MetricName": metric.name,
        "Statistic": metric.statistic,
        "Period": metric.period,
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
