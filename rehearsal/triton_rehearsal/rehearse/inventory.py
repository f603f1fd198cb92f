"""Scaling, alarms and dashboard of an endpoint, read through the APIs that an operator uses."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from triton_rehearsal.page import alarms

if TYPE_CHECKING:
    from embedded_aws import EmbeddedAws

_INSTANCES = "/aws/sagemaker/Endpoints"  # the namespace of the instances' metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A scaling policy. The target of a step policy is the change of its first step in instances."""

    name: str
    metric: str
    target: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalableTarget:
    """A registered scalable target, with its bounds in instances."""

    resource: str
    minimum: int
    maximum: int
    policies: tuple[Policy, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """An alarm and its condition, in CloudWatch's own words."""

    name: str
    condition: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Widget:
    """A graph of the dashboard, with its title and metrics."""

    title: str
    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Scaling, alarms and dashboard of an endpoint, with two metrics of the last hour; None without data."""

    targets: tuple[ScalableTarget, ...]
    alarms: tuple[Alarm, ...]
    widgets: tuple[Widget, ...]
    peak_models_loaded: float | None
    cache_hit_ratio: float | None


def read(aws: EmbeddedAws, *, endpoint: str, dashboard: str) -> Inventory:
    """Return an endpoint's scaling, alarms and dashboard from the embedded AWS."""
    return Inventory(
        targets=_targets(aws, endpoint),
        alarms=_alarms(aws),
        widgets=_widgets(aws, dashboard),
        peak_models_loaded=_last_hour(aws, endpoint, _INSTANCES, "LoadedModelCount", "Maximum"),
        cache_hit_ratio=_last_hour(aws, endpoint, "AWS/SageMaker", "ModelCacheHit", "Average"),
    )


def _targets(aws: EmbeddedAws, endpoint: str) -> tuple[ScalableTarget, ...]:
    scaling = aws.client("application-autoscaling")
    found = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    policies = scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
    return tuple(
        ScalableTarget(
            resource=target["ResourceId"],
            minimum=target["MinCapacity"],
            maximum=target["MaxCapacity"],
            policies=tuple(
                _policy(policy) for policy in policies if policy["ResourceId"] == target["ResourceId"]
            ),
        )
        for target in found
        if target["ResourceId"].startswith(f"endpoint/{endpoint}/")
    )


def _policy(policy: dict[str, Any]) -> Policy:
    name = policy["PolicyName"]
    if "TargetTrackingScalingPolicyConfiguration" not in policy:
        steps = policy["StepScalingPolicyConfiguration"]["StepAdjustments"]
        return Policy(name=name, metric="steps of an alarm", target=steps[0]["ScalingAdjustment"])
    tracking = policy["TargetTrackingScalingPolicyConfiguration"]
    predefined = tracking.get("PredefinedMetricSpecification", {}).get("PredefinedMetricType")
    custom = tracking.get("CustomizedMetricSpecification", {})
    metric = predefined or custom.get("MetricName") or alarms.returned_expression(custom["Metrics"])
    return Policy(name=name, metric=metric, target=tracking["TargetValue"])


def _alarms(aws: EmbeddedAws) -> tuple[Alarm, ...]:
    return tuple(
        Alarm(
            name=alarm["AlarmName"],
            condition=alarms.condition(alarm),
            description=alarm.get("AlarmDescription", ""),
        )
        for alarm in alarms.described(aws.client("cloudwatch"))
    )


def _widgets(aws: EmbeddedAws, dashboard: str) -> tuple[Widget, ...]:
    body = json.loads(aws.client("cloudwatch").get_dashboard(DashboardName=dashboard)["DashboardBody"])
    return tuple(
        Widget(title=widget["properties"]["title"], metrics=_metric_names(widget["properties"]))
        for widget in body["widgets"]
        if "metrics" in widget["properties"]
    )


def _metric_names(properties: dict[str, Any]) -> tuple[str, ...]:
    # A row is [namespace, name, dimensions...] or [{expression}].
    names = (row[1] for row in properties["metrics"] if not isinstance(row[0], dict))
    return tuple(dict.fromkeys(names))


def _last_hour(aws: EmbeddedAws, endpoint: str, namespace: str, metric: str, statistic: str) -> float | None:
    now = aws.clock.now()
    points = aws.client("cloudwatch").get_metric_statistics(
        Namespace=namespace,
        MetricName=metric,
        Dimensions=[
            {"Name": "EndpointName", "Value": endpoint},
            {"Name": "VariantName", "Value": "AllTraffic"},
        ],
        StartTime=now - timedelta(hours=1),
        EndTime=now + timedelta(minutes=1),
        Period=2 * 3600,
        Statistics=[statistic],
    )["Datapoints"]
    return float(points[-1][statistic]) if points else None
