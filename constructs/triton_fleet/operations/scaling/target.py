"""The parts of every tracking target: a metric, its value, and the time to wait."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from aws_cdk import Duration
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch

from triton_fleet.endpoint.hosting.deployment import MINUTES_TO_SERVE
from triton_fleet.endpoint.hosting.variants import DeployedVariant
from triton_fleet.parts.arguments.checks import whole_quantity
from triton_fleet.parts.arguments.tokens import deferred
from triton_fleet.parts.arguments.typed import typed
from triton_models.base.checks import Check, Report
from triton_models.facts.instances import InstanceType

POLICY_NAME = Check(
    id="policy-name",
    source="2026-11-21: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScheduledAction.html",
)
SCALING_NUMBER = Check(
    id="scaling-number",
    source="2026-11-21: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_Operations.html",
)
SCALING_TARGET_REACHABLE = Check(
    id="scaling-target-reachable",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-add-code-define.html",
)
SCALING_TARGET_HARDWARE = Check(
    id="scaling-target-hardware",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html",
)
SCALING_TARGET_PUBLISHED = Check(
    id="scaling-target-published",
    source=(
        "2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/model-deploy-feature-matrix.html"
        " https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-monitor.html"
    ),
)
Per = Literal["GPU", "vCPU", "instance"]
Tracking = autoscaling.CfnScalingPolicy.TargetTrackingScalingPolicyConfigurationProperty
Customized = autoscaling.CfnScalingPolicy.CustomizedMetricSpecificationProperty
Predefined = autoscaling.CfnScalingPolicy.PredefinedMetricSpecificationProperty

_Dimension = autoscaling.CfnScalingPolicy.MetricDimensionProperty
_Query = autoscaling.CfnScalingPolicy.TargetTrackingMetricDataQueryProperty
_QueryStat = autoscaling.CfnScalingPolicy.TargetTrackingMetricStatProperty
_QueryMetric = autoscaling.CfnScalingPolicy.TargetTrackingMetricProperty
_QueryDimension = autoscaling.CfnScalingPolicy.TargetTrackingMetricDimensionProperty

_ALL_PERCENT = 100.0
# The statistics that a metric on its own may have; any other has to be the only query of an expression.
_PLAIN_STATISTICS = frozenset({"Average", "Minimum", "Maximum", "SampleCount", "Sum"})


def specification(metric: cloudwatch.IMetric, *, unit: str | None = None) -> Customized:
    """The metric as a policy takes it: by its name if that says everything, else as queries."""
    stat = metric.to_metric_config().metric_stat
    if stat is None or stat.statistic not in _PLAIN_STATISTICS:
        return Customized(metrics=_queries(metric))
    return Customized(
        metric_name=stat.metric_name,
        namespace=stat.namespace,
        statistic=stat.statistic,
        unit=unit or _unit(stat.unit_filter),
        dimensions=[_Dimension(name=each.name, value=each.value) for each in stat.dimensions or ()] or None,
    )


def _unit(unit: cloudwatch.Unit | None) -> str | None:
    """CloudWatch's own name of a unit: Count/Second, where CDK's enumeration says COUNT_PER_SECOND."""
    return None if unit is None else unit.name.title().replace("_Per_", "/")


def _queries(metric: cloudwatch.IMetric) -> list[_Query]:
    """A query for the metric and for each that it refers to; only the metric itself is returned."""
    parts = dict(_parts(metric))
    result = "result"
    while result in parts:
        result += "_"
    queries = [_query(name, part, returned=False) for name, part in parts.items()]
    return [*queries, _query(result, metric, returned=True)]


def _parts(metric: cloudwatch.IMetric) -> Iterator[tuple[str, cloudwatch.IMetric]]:
    """The metrics of an expression, by its variables; CDK sees to it that one name means one metric."""
    expression = metric.to_metric_config().math_expression
    for name, part in (expression.using_metrics if expression else {}).items():
        yield from _parts(part)
        yield name, part


def _query(name: str, metric: cloudwatch.IMetric, *, returned: bool) -> _Query:
    config = metric.to_metric_config()
    if config.math_expression is not None:
        return _Query(id=name, expression=config.math_expression.expression, return_data=returned)
    stat = config.metric_stat
    assert stat is not None  # noqa: S101 -- a metric is either an expression or has a statistic
    return _Query(
        id=name,
        return_data=returned,
        metric_stat=_QueryStat(
            stat=stat.statistic,
            unit=_unit(stat.unit_filter),
            metric=_QueryMetric(
                metric_name=stat.metric_name,
                namespace=stat.namespace,
                dimensions=[
                    _QueryDimension(name=each.name, value=each.value) for each in stat.dimensions or ()
                ],
            ),
        ),
    )


_UNTIL_IT_SERVES = Duration.minutes(MINUTES_TO_SERVE)
_TEN_MINUTES = Duration.minutes(10)


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class Cooldowns:
    """The times between scaling activities.

    Attributes:
        scale_out: After adding instances. One takes 12 to 15 minutes to serve; asking again sooner would pay
            for the same load twice. A higher demand is still followed meanwhile.
        scale_in: After removing one. Its loaded models go with it and are loaded again elsewhere, so the
            fleet shrinks slowly.
    """

    scale_out: Duration = _UNTIL_IT_SERVES
    scale_in: Duration = _TEN_MINUTES

    def _check(self, report: Report) -> None:
        for name in ("scale_out", "scale_in"):
            whole_quantity(report, getattr(self, name), name=name)


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingTarget(ABC):
    """A metric and its target value.

    Targets are given for one GPU, one vCPU or one instance, so they stay right when the instance type
    changes; what Application Auto Scaling compares with the metric follows from the instance.

    Attributes:
        cooldowns: The times to wait after scaling for this target; None for those of the EndpointScaling.
        disable_scale_in: Only ever add instances for this target. For a target that says when there are too
            few instances but not when there are too many; another one then has to remove them.
    """

    _POLICY: ClassVar[str] = ""  # the class's name, if empty
    _PER: ClassVar[Per] = "instance"
    _LIMIT: ClassVar[float | None] = None  # the most that the metric of one can reach
    _UNITS: ClassVar[int] = 1  # of the metric's in one that the target is given in
    _COUNTS_ANSWERS: ClassVar[bool] = False
    _OF_QUEUE: ClassVar[bool] = False

    cooldowns: Cooldowns | None = None
    disable_scale_in: bool = False

    @property
    def _policy(self) -> str:
        """The construct's id and the last part of the policy's name; one policy for each."""
        return self._POLICY or type(self).__name__

    @property
    @abstractmethod
    def _amount(self) -> float:
        """The target as it is given, of one GPU, vCPU or instance."""

    @property
    def _deferred(self) -> bool:
        return deferred(self._amount)

    def _value(self, instance: InstanceType) -> float:
        """The number that Application Auto Scaling compares the metric with."""
        return self._amount * self._factor(instance)

    def _factor(self, instance: InstanceType) -> int:
        return self._UNITS * {"GPU": instance.gpu_count, "vCPU": instance.vcpus, "instance": 1}[self._PER]

    def _check(self, report: Report, variant: DeployedVariant) -> None:
        """Report problems with following the metric of a variant."""
        policy_name(report, self._policy)
        if self.cooldowns is not None:
            self.cooldowns._check(report)
        if not self._deferred:
            self._check_amount(report)
        elif self._factor(variant.instance) != 1:
            scaling_number_now(report, "the target")
        if self._OF_QUEUE and not variant.asynchronous:
            report(
                SCALING_TARGET_PUBLISHED,
                f"the target {self._policy} needs a queue, and the endpoint has no queue",
                why="without a backlog metric, the fleet would never change its size",
                fix="use InvocationsPerGpu or a utilization, or give the endpoint async_inference",
            )
        if self._COUNTS_ANSWERS and variant.asynchronous:
            report(
                SCALING_TARGET_PUBLISHED,
                f"the target {self._policy} counts requests, and the endpoint is asynchronous",
                why="SageMaker publishes no Invocations for asynchronous endpoints",
                fix="use BacklogPerInstance(requests=5)",
            )
        if self._PER == "GPU" and variant.instance.gpu is None:
            report(
                SCALING_TARGET_HARDWARE,
                f"the target {self._policy} is per GPU, and {variant.instance.name} has no GPU",
                why="without GPU metrics, the fleet would never change its size",
                fix="use CpuUtilization(percent=60), or an instance type with a GPU",
            )

    def _check_amount(self, report: Report) -> None:
        value, limit = self._amount, self._LIMIT
        if limit == _ALL_PERCENT and 0 < value < 1:
            report(
                SCALING_TARGET_REACHABLE,
                f"the target is {value:g} %",
                why="any request exceeds it, so the fleet would always have its maximum",
                fix=f"give percent: {value * _ALL_PERCENT:g} instead of {value:g}",
            )
        elif not value > 0 or (limit is not None and value >= limit):
            most = "" if limit is None else f" and less than {limit:g}, which the metric cannot exceed"
            report(
                SCALING_TARGET_REACHABLE,
                f"the target is {value:g}",
                why="the metric never reaches it, so the fleet would only grow or only shrink",
                fix=f"set the target for one {self._PER}: more than 0{most}",
            )

    def _tracking(self, variant: DeployedVariant, *, cooldowns: Cooldowns) -> Tracking:
        metric = self._metric(variant)
        waits = self.cooldowns or cooldowns
        return Tracking(
            target_value=self._value(variant.instance),
            predefined_metric_specification=metric if isinstance(metric, Predefined) else None,
            customized_metric_specification=metric if isinstance(metric, Customized) else None,
            scale_out_cooldown=waits.scale_out.to_seconds(),
            scale_in_cooldown=waits.scale_in.to_seconds(),
            disable_scale_in=True if self.disable_scale_in else None,
        )

    @abstractmethod
    def _metric(self, variant: DeployedVariant) -> Predefined | Customized:
        """The metric of a variant."""


def policy_name(report: Report, name: str) -> None:
    """Check the name of a policy or scheduled action, which is the id of a construct: no token."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", name):
        fix = "use 1 to 100 letters, digits, hyphens, dots and underscores, such as QueueDepth or Morning"
        report(POLICY_NAME, f"the name is {name[:60]!a}", fix=fix)


def scaling_number_now(report: Report, name: str) -> None:
    """Report a number that others are computed from, and that is known only at deployment."""
    report(
        SCALING_NUMBER,
        f"{name} is known only when the stack is deployed",
        why="other numbers are computed from it at synthesis",
        fix="use the number itself, from context instead of a CloudFormation parameter",
    )
