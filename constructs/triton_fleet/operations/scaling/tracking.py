"""Target tracking: metrics that auto scaling keeps constant by adding and removing instances.

Sources, read on 2026-11-21:

* https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-add-code-define.html
* https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-target-tracking-metric-math.html
"""

# ruff: noqa: ARG002 (every target is asked about a variant, whether or not its metric depends on it)

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from typing_extensions import Unpack

from triton_fleet.endpoint.hosting.variants import DeployedVariant
from triton_fleet.operations.scaling.target import Customized, Per, Predefined, ScalingTarget, specification
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.metrics.facts import METRICS
from triton_fleet.parts.metrics.published import MetricOptions
from triton_models.base.checks import Check, Report

_MICROSECONDS_PER_MILLISECOND = 1000

# From the API models in botocore 1.44.5: Application Auto Scaling accepts any statistic of CloudWatch in a
# query of a customized metric (TargetTrackingMetricStat), and AnomalyDetectorMetricStat has the grammar. Its
# o, u and the endings _E, _L and _H are not documented.
STATISTIC_NAME = Check(
    id="statistic-name",
    source=(
        "2026-11-22: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Statistics-definitions.html"
        " https://docs.aws.amazon.com/autoscaling/application/APIReference/API_TargetTrackingMetricStat.html"
    ),
)
_STATISTICS = ("Average", "Minimum", "Maximum", "Sum", "SampleCount", "IQM")
_DECIMALS = r"(\.\d{1,10})?"
_BELOW_HUNDRED = rf"\d{{1,2}}{_DECIMALS}"
_PERCENT = rf"({_BELOW_HUNDRED}|100(\.0{{1,10}})?)%"
_NUMBER = rf"\d+{_DECIMALS}([Ee][+-]?\d+)?"


def _between(bound: str) -> str:
    """Return the pattern of two bounds, one of which may be missing."""
    return rf"\(({bound}:({bound})?|:{bound})\)"


_STATISTIC = re.compile(
    "|".join(
        (
            *_STATISTICS,
            rf"(p|tm|wm|tc|ts)({_BELOW_HUNDRED}|100)",
            rf"(TM|WM|TC|TS){_between(_PERCENT)}",
            rf"(PR|TM|WM|TC|TS){_between(_NUMBER)}",
        )
    ),
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocations(ScalingTarget):
    """Targets for requests per minute, per GPU or per instance: see the subclasses."""

    _POLICY: ClassVar[str] = "Invocations"
    _COUNTS_ANSWERS: ClassVar[bool] = True

    per_minute: float

    @property
    def _amount(self) -> float:
        return self.per_minute

    def _metric(self, variant: DeployedVariant) -> Predefined:
        return Predefined(predefined_metric_type="SageMakerVariantInvocationsPerInstance")


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationsPerGpu(Invocations):
    """Target for the requests per minute per GPU, as AWS advises for multi-model endpoints.

    The right number depends on the models and on how often they are cached: measure it, with
    `fleet load --find-knee`.

    Attributes:
        per_minute: Requests per minute per GPU. The default of ten per second is low: too many instances cost
            money, too few cost requests.
    """

    _PER: ClassVar[Per] = "GPU"

    per_minute: float = 600


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationsPerInstance(Invocations):
    """Target for the requests per minute per instance: for CPU types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilization(ScalingTarget):
    """Targets for the utilization of the GPUs or vCPUs, 0 to 100 of each: see the subclasses.

    SageMaker adds the percentages of an instance's up; here the target is multiplied accordingly.
    """

    _LIMIT: ClassVar[float | None] = 100
    _METRIC: ClassVar[str]

    percent: float

    @property
    def _amount(self) -> float:
        return self.percent

    def _metric(self, variant: DeployedVariant) -> Customized:
        return _published(self._METRIC, variant)


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUtilization(Utilization):
    """Target for GPU utilization, which follows the work instead of the number of requests.

    Attributes:
        percent: 0 to 100, of each GPU. The default leaves room for the minutes until a new instance serves.
    """

    _PER: ClassVar[Per] = "GPU"
    _METRIC: ClassVar[str] = "GPUUtilization"

    percent: float = 60


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemoryUtilization(Utilization):
    """Target for GPU memory utilization: for models whose requests need memory.

    Not for a multi-model endpoint. There GPU memory is a cache: it fills with models and stays full however
    little is asked, so the fleet would grow to its maximum and remain there.

    Attributes:
        percent: 0 to 100, of each GPU's memory. Above what the loaded model takes at rest.
    """

    _PER: ClassVar[Per] = "GPU"
    _METRIC: ClassVar[str] = "GPUMemoryUtilization"

    percent: float


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class CpuUtilization(Utilization):
    """Target for vCPU utilization: for CPU instance types, and for Python backends next to a GPU.

    Attributes:
        percent: 0 to 100, of each vCPU.
    """

    _PER: ClassVar[Per] = "vCPU"
    _METRIC: ClassVar[str] = "CPUUtilization"

    percent: float = 60


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLatency(ScalingTarget):
    """Target for the latency of models.

    Latency does not fall in proportion to the instances, which is what target tracking assumes, and a quiet
    fleet is not faster than a well used one: give it `disable_scale_in=True` and let another target shrink
    the fleet.

    Attributes:
        latency: The time that the container takes to answer.
        statistic: Of the requests of a minute: "Average", or a percentile such as "p90".
    """

    _UNITS: ClassVar[int] = _MICROSECONDS_PER_MILLISECOND

    latency: Duration
    statistic: str = "Average"

    def _check(self, report: Report, variant: DeployedVariant) -> None:
        ScalingTarget._check(self, report, variant)
        statistic_name(report, self.statistic)

    @property
    def _amount(self) -> float:
        """Milliseconds; SageMaker publishes microseconds."""
        return self.latency.to_milliseconds(integral=False)

    @property
    def _deferred(self) -> bool:
        return self.latency.is_unresolved()

    def _metric(self, variant: DeployedVariant) -> Customized:
        return _published("ModelLatency", variant, statistic=self.statistic)


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrentRequests(ScalingTarget):
    """Target for the concurrent requests per model, including queued ones.

    It is published every ten seconds, so scaling starts minutes earlier than with any other metric. Made for
    slow answers, such as generated text, of which a count per minute says little. SageMaker's page about the
    metrics of multi-model endpoints promises them by the minute only: see there that it is published first.

    Attributes:
        per_model: Requests at one time in the model of one instance.
    """

    _COUNTS_ANSWERS: ClassVar[bool] = True

    per_model: float

    @property
    def _amount(self) -> float:
        return self.per_model

    def _metric(self, variant: DeployedVariant) -> Predefined:
        return Predefined(predefined_metric_type="SageMakerVariantConcurrentRequestsPerModelHighResolution")


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogPerInstance(ScalingTarget):
    """Target for the queued requests per instance of an asynchronous endpoint.

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
    def _amount(self) -> float:
        return self.requests

    def _metric(self, variant: DeployedVariant) -> Customized:
        return specification(variant.metric_approximate_backlog_size_per_instance())


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class MetricTarget(ScalingTarget):
    """Target for any CloudWatch metric, or for an expression over several.

    It has to fall when instances are added and rise when they are removed, about in proportion: a queue's
    length for each instance, not the queue's length. Application Auto Scaling reads it by the minute,
    whatever the metric's period is, in the endpoint's own account and region.

    Attributes:
        name: The construct's id and the last part of the policy's name, unique in its scaling.
        metric: A metric with any statistic, or a `MathExpression`, also over those of an endpoint.
        target: The value to keep, of the metric as it is.
    """

    name: str
    metric: cloudwatch.IMetric
    target: float

    @property
    def _policy(self) -> str:
        return self.name

    @property
    def _amount(self) -> float:
        return self.target

    def _metric(self, variant: DeployedVariant) -> Customized:
        return specification(self.metric)


def default_targets(variant: DeployedVariant) -> tuple[ScalingTarget, ...]:
    """Return the default targets.

    The queue of an asynchronous endpoint; else requests and GPUs, or the CPU where there is no GPU.
    """
    if variant.asynchronous:
        return (BacklogPerInstance(),)
    if variant.instance.gpu is None:
        return (CpuUtilization(),)
    return (InvocationsPerGpu(), GpuUtilization())


def _published(name: str, variant: DeployedVariant, **options: Unpack[MetricOptions]) -> Customized:
    """A metric as SageMaker publishes it for the variant: under EndpointName and VariantName.

    AWS's page about scaling multi-model endpoints says ModelName, under which nothing is published: such a
    policy is accepted and never acts.
    """
    return specification(variant.metric(name, **options), unit=METRICS[name].unit)


def statistic_name(report: Report, statistic: str) -> None:
    """Check that CloudWatch has a statistic."""
    if not _STATISTIC.fullmatch(statistic):
        fix = f"use {', '.join(_STATISTICS)}, a percentile such as p90, or a range such as TM(10%:90%)"
        report(STATISTIC_NAME, f"the statistic is {statistic[:40]!a}", fix=fix)
