"""Target tracking: what auto scaling keeps constant by adding and removing instances.

Sources, read on 2026-11-21:

* https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-add-code-define.html
* https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-target-tracking-metric-math.html
* the API model of Application Auto Scaling, for what each kind of metric may hold
"""

# ruff: noqa: ARG002 (every target is asked about a variant, whether or not its metric depends on it)

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from aws_cdk import Duration
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch

from triton_fleet.arguments.typed import typed, typed_fields
from triton_fleet.hosting.variants import DeployedVariant
from triton_fleet.metrics.facts import METRICS
from triton_fleet.metrics.queue import QueueMetrics

Per = Literal["GPU", "vCPU", "instance"]
Tracking = autoscaling.CfnScalingPolicy.TargetTrackingScalingPolicyConfigurationProperty

_Customized = autoscaling.CfnScalingPolicy.CustomizedMetricSpecificationProperty
_Dimension = autoscaling.CfnScalingPolicy.MetricDimensionProperty
_Predefined = autoscaling.CfnScalingPolicy.PredefinedMetricSpecificationProperty
_Query = autoscaling.CfnScalingPolicy.TargetTrackingMetricDataQueryProperty
_QueryStat = autoscaling.CfnScalingPolicy.TargetTrackingMetricStatProperty
_QueryMetric = autoscaling.CfnScalingPolicy.TargetTrackingMetricProperty
_QueryDimension = autoscaling.CfnScalingPolicy.TargetTrackingMetricDimensionProperty

# The statistics that a metric on its own may have; any other has to be the only query of an expression.
_PLAIN_STATISTICS = frozenset({"Average", "Minimum", "Maximum", "SampleCount", "Sum"})
_MICROSECONDS_PER_MILLISECOND = 1000


@typed_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class Cooldowns:
    """How long scaling waits for what it has just done to show.

    Attributes:
        scale_out: After adding instances. A GPU instance takes about five minutes to serve; asking again
            sooner would pay for the same load twice.
        scale_in: After removing one. Its loaded models go with it and are loaded again elsewhere, so the
            fleet shrinks slowly.
    """

    scale_out: Duration
    scale_in: Duration

    @classmethod
    def default(cls) -> Cooldowns:
        """Five minutes after scaling out, ten after scaling in."""
        return cls(scale_out=Duration.minutes(5), scale_in=Duration.minutes(10))


@typed_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class Target(ABC):
    """A metric and the value that it is kept at.

    Targets are given for one GPU, one vCPU or one instance, so they stay right when the instance type
    changes; what Application Auto Scaling compares with the metric follows from the instance.

    Attributes:
        cooldowns: How long to wait after scaling for this target; None for those of the scaling.
        disable_scale_in: Only ever add instances for this target. For a target that says when there are too
            few instances but not when there are too many; another one then has to remove them.
    """

    _POLICY: ClassVar[str] = ""
    _PER: ClassVar[Per] = "instance"
    _LIMIT: ClassVar[float | None] = None
    _UNITS: ClassVar[int] = 1  # of the metric's in one that the target is given in
    _COUNTS_ANSWERS: ClassVar[bool] = False
    _OF_QUEUE: ClassVar[bool] = False

    cooldowns: Cooldowns | None = None
    disable_scale_in: bool = False

    @property
    def policy(self) -> str:
        """The construct's id and the last part of the policy's name; one policy for each."""
        return self._POLICY

    @property
    def per(self) -> Per:
        """What the target is given for."""
        return self._PER

    @property
    def limit(self) -> float | None:
        """The most that the metric of one GPU, vCPU or instance can reach; None if it has no bound."""
        return self._LIMIT

    @property
    def of_queue(self) -> bool:
        """Whether the metric is of the queue that only an asynchronous endpoint has."""
        return self._OF_QUEUE

    @property
    def counts_answers(self) -> bool:
        """Whether the metric counts requests as SageMaker publishes them of endpoints that answer at once."""
        return self._COUNTS_ANSWERS

    @property
    @abstractmethod
    def amount(self) -> float:
        """The target as it is given, of one GPU, vCPU or instance."""

    @typed
    def value(self, *, gpu_count: int = 1, vcpus: int = 1) -> float:
        """The number that Application Auto Scaling compares the metric with.

        Args:
            gpu_count: The GPUs of an instance.
            vcpus: Its vCPUs.
        """
        return self.amount * self.factor(gpu_count=gpu_count, vcpus=vcpus)

    @typed
    def factor(self, *, gpu_count: int, vcpus: int) -> int:
        """What the target is multiplied by on an instance; arguments as of `value`."""
        return self._UNITS * {"GPU": gpu_count, "vCPU": vcpus, "instance": 1}[self.per]

    @typed
    def tracking(self, variant: DeployedVariant, *, cooldowns: Cooldowns) -> Tracking:
        """The policy's configuration.

        Args:
            variant: What is scaled.
            cooldowns: Those of the scaling; the target's own win.
        """
        metric = self._metric(variant)
        waits = self.cooldowns or cooldowns
        return Tracking(
            target_value=self.value(gpu_count=variant.instance.gpu_count, vcpus=variant.instance.vcpus),
            predefined_metric_specification=metric if isinstance(metric, _Predefined) else None,
            customized_metric_specification=metric if isinstance(metric, _Customized) else None,
            scale_out_cooldown=waits.scale_out.to_seconds(),
            scale_in_cooldown=waits.scale_in.to_seconds(),
            disable_scale_in=True if self.disable_scale_in else None,
        )

    @abstractmethod
    def _metric(self, variant: DeployedVariant) -> _Predefined | _Customized:
        """The metric of a variant."""


@typed_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationsPerGpu(Target):
    """Keep the requests that each GPU answers in a minute constant. AWS's advice for multi-model endpoints.

    The right number depends on the models and on how often they are cached: measure it, with
    `from_load_test`.

    Attributes:
        per_minute: Requests a minute for each GPU. The default, ten a second, is low: too many instances cost
            money, too few cost requests.
    """

    _POLICY: ClassVar[str] = "Invocations"
    _PER: ClassVar[Per] = "GPU"
    _COUNTS_ANSWERS: ClassVar[bool] = True

    per_minute: float = 600

    @classmethod
    @typed
    def from_load_test(cls, *, requests_per_second: float, safety_factor: float = 0.5) -> InvocationsPerGpu:
        """The target for the highest rate that one GPU sustained.

        Args:
            requests_per_second: That rate.
            safety_factor: The share of it to aim for: a new instance takes minutes to come, and
                meanwhile the load grows. AWS starts at 0.5.
        """
        return cls(per_minute=requests_per_second * safety_factor * 60)

    @property
    def amount(self) -> float:
        """Requests a minute."""
        return self.per_minute

    def _metric(self, variant: DeployedVariant) -> _Predefined:
        return _Predefined(predefined_metric_type="SageMakerVariantInvocationsPerInstance")


@typed_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationsPerInstance(Target):
    """Keep the requests that each instance answers in a minute constant, whatever is in it: for CPU types.

    Attributes:
        per_minute: Requests a minute for each instance.
    """

    _POLICY: ClassVar[str] = "Invocations"
    _COUNTS_ANSWERS: ClassVar[bool] = True

    per_minute: float

    @classmethod
    @typed
    def from_load_test(
        cls, *, requests_per_second: float, safety_factor: float = 0.5
    ) -> InvocationsPerInstance:
        """The target for the highest rate that one instance sustained.

        Args:
            requests_per_second: That rate.
            safety_factor: The share of it to aim for. AWS starts at 0.5.
        """
        return cls(per_minute=requests_per_second * safety_factor * 60)

    @property
    def amount(self) -> float:
        """Requests a minute."""
        return self.per_minute

    def _metric(self, variant: DeployedVariant) -> _Predefined:
        return _Predefined(predefined_metric_type="SageMakerVariantInvocationsPerInstance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilization(Target):
    """Keep a part of the instances equally busy or full: what its kinds are, such as `GpuUtilization`.

    Attributes:
        percent: 0 to 100, of each GPU or vCPU. SageMaker adds the percentages of an instance's up; here the
            target is multiplied accordingly.
    """

    _LIMIT: ClassVar[float | None] = 100
    _METRIC: ClassVar[str]

    percent: float

    @property
    def amount(self) -> float:
        """Percent of each GPU or vCPU."""
        return self.percent

    def _metric(self, variant: DeployedVariant) -> _Customized:
        return _published(self._METRIC, variant)


@typed_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUtilization(Utilization):
    """Keep the GPUs equally busy: it follows the work instead of the number of requests.

    Attributes:
        percent: 0 to 100, of each GPU. The default leaves room for the minutes until a new instance serves.
    """

    _POLICY: ClassVar[str] = "GpuUtilization"
    _PER: ClassVar[Per] = "GPU"
    _METRIC: ClassVar[str] = "GPUUtilization"

    percent: float = 60


@typed_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemoryUtilization(Utilization):
    """Keep the GPUs' memory equally full: for a model that takes memory with each request it works on.

    Not for a multi-model endpoint. There GPU memory is a cache: it fills with models and stays full however
    little is asked, so the fleet would grow to its maximum and remain there.

    Attributes:
        percent: 0 to 100, of each GPU's memory. Above what the loaded model takes at rest.
    """

    _POLICY: ClassVar[str] = "GpuMemoryUtilization"
    _PER: ClassVar[Per] = "GPU"
    _METRIC: ClassVar[str] = "GPUMemoryUtilization"

    percent: float


@typed_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class CpuUtilization(Utilization):
    """Keep the vCPUs equally busy: the target of CPU instance types, and of Python backends beside a GPU.

    Attributes:
        percent: 0 to 100, of each vCPU. SageMaker publishes the sum over an instance's vCPUs, so that a
            target written down as 60 would be 60 of 800 on eight of them; here it is multiplied.
    """

    _POLICY: ClassVar[str] = "CpuUtilization"
    _PER: ClassVar[Per] = "vCPU"
    _METRIC: ClassVar[str] = "CPUUtilization"

    percent: float = 60


@typed_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLatency(Target):
    """Add instances when the model's answers take longer.

    Latency does not fall in proportion to the instances, which is what target tracking assumes, and a quiet
    fleet is not faster than a well used one: give it `disable_scale_in=True` and let another target shrink
    the fleet.

    Attributes:
        milliseconds: How long the container takes to answer.
        statistic: Of the requests of a minute: "Average", or a percentile such as "p90".
    """

    _POLICY: ClassVar[str] = "ModelLatency"
    _UNITS: ClassVar[int] = _MICROSECONDS_PER_MILLISECOND

    milliseconds: float
    statistic: str = "Average"

    @property
    def amount(self) -> float:
        """Milliseconds; SageMaker publishes microseconds."""
        return self.milliseconds

    def _metric(self, variant: DeployedVariant) -> _Customized:
        return _published("ModelLatency", variant, statistic=self.statistic)


@typed_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrentRequests(Target):
    """Keep the requests that are in a model at one time constant, queued ones included.

    It is published every ten seconds, so scaling starts minutes earlier than with any other metric. Made for
    slow answers, such as generated text, of which a count per minute says little. SageMaker's page about the
    metrics of multi-model endpoints promises them by the minute only: see there that it is published first.

    Attributes:
        per_model: Requests at one time in the model of one instance.
    """

    _POLICY: ClassVar[str] = "ConcurrentRequests"
    _COUNTS_ANSWERS: ClassVar[bool] = True

    per_model: float

    @property
    def amount(self) -> float:
        """Requests at one time."""
        return self.per_model

    def _metric(self, variant: DeployedVariant) -> _Predefined:
        return _Predefined(predefined_metric_type="SageMakerVariantConcurrentRequestsPerModelHighResolution")


@typed_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogPerInstance(Target):
    """Keep the requests that wait for each instance of an asynchronous endpoint constant.

    AWS's advice for these: it follows the queue, and lets the fleet shrink to nothing when that is empty. The
    first instance is brought back by a policy of its own, see `EndpointScaling`.

    Attributes:
        requests: Requests in the queue, those being worked on included, for each instance. The default is
            that of AWS's page: how long a caller waits is about this many times the model's latency.
    """

    _POLICY: ClassVar[str] = "Backlog"
    _OF_QUEUE: ClassVar[bool] = True

    requests: float = 5

    @property
    def amount(self) -> float:
        """Requests in the queue."""
        return self.requests

    def _metric(self, variant: DeployedVariant) -> _Customized:
        queue = QueueMetrics(endpoint_name=variant.metrics.endpoint_name)
        return _specification(queue.backlog_per_instance())


@typed_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class MetricTarget(Target):
    """Keep any CloudWatch metric constant, or an expression over several.

    It has to fall when instances are added and rise when they are removed, about in proportion: a queue's
    length for each instance, not the queue's length. Application Auto Scaling reads it by the minute,
    whatever the metric's period is, in the endpoint's own account and region.

    Attributes:
        name: The construct's id and the last part of the policy's name, one of a kind in its scaling.
        metric: A metric with any statistic, or a `MathExpression`, also over those of `endpoint.metrics`.
        target: The value to keep, of the metric as it is.
    """

    name: str
    metric: cloudwatch.IMetric
    target: float

    @property
    def policy(self) -> str:
        """The target's name."""
        return self.name

    @property
    def amount(self) -> float:
        """The metric's value."""
        return self.target

    def _metric(self, variant: DeployedVariant) -> _Customized:
        return _specification(self.metric)


def default_targets(variant: DeployedVariant) -> tuple[Target, ...]:
    """What to keep constant where nobody said it.

    The queue of an asynchronous endpoint; else requests and GPUs, or the CPU where there is no GPU.
    """
    if variant.asynchronous:
        return (BacklogPerInstance(),)
    if variant.instance.gpu is None:
        return (CpuUtilization(),)
    return (InvocationsPerGpu(), GpuUtilization())


def _published(name: str, variant: DeployedVariant, *, statistic: str | None = None) -> _Customized:
    """A metric as SageMaker publishes it for the variant: under EndpointName and VariantName.

    AWS's page about scaling multi-model endpoints says ModelName, under which nothing is published: such a
    policy is accepted and never acts.
    """
    metric = variant.metrics.metric(name, statistic=statistic)
    return _specification(metric, unit=METRICS[name].unit)


def _specification(metric: cloudwatch.IMetric, *, unit: str | None = None) -> _Customized:
    """The metric as a policy takes it: by its name if that says everything, else as queries."""
    stat = metric.to_metric_config().metric_stat
    if stat is None or stat.statistic not in _PLAIN_STATISTICS:
        return _Customized(metrics=_queries(metric))
    return _Customized(
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
    """A query for the metric and for each that it is made of; only the metric itself is returned."""
    parts = dict(_parts(metric))
    result = "result"
    while result in parts:
        result += "_"
    queries = [_query(name, part, returned=False) for name, part in parts.items()]
    return [*queries, _query(result, metric, returned=True)]


def _parts(metric: cloudwatch.IMetric) -> Iterator[tuple[str, cloudwatch.IMetric]]:
    """What an expression is made of, by its variables; CDK sees to it that one name means one metric."""
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
