"""CloudWatch metrics of an endpoint, made from the table of what SageMaker publishes.

Source of what enhanced metrics add, read on 2026-11-21:
https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch-enhanced-metrics.html
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypedDict

from aws_cdk import Duration, Tokenization
from aws_cdk import aws_cloudwatch as cloudwatch
from typing_extensions import Unpack

from triton_fleet.parts.arguments.checks import NUMBER_RANGE
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.metrics.facts import DEFAULT_VARIANT, METRICS, metric_fact
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.facts.instances import InstanceType
from triton_models.facts.instances import instance_type as find_instance_type

UNKNOWN_HARDWARE = Check(id="unknown-hardware", source=FROM_ARGUMENTS)

MINUTE = Duration.minutes(1)
AnyMetric: TypeAlias = "cloudwatch.Metric | cloudwatch.MathExpression"
Failure = Literal["Invocation4XXErrors", "Invocation5XXErrors", "InvocationModelErrors"]
# These statistics are numbers of samples or shares of them, whatever the unit of the metric.
_WITHOUT_UNIT = ("SampleCount", "PR", "TC", "tc")


class MathOptions(TypedDict, total=False):
    """The options of a metric that is computed from others; each as in `MetricOptions`."""

    account: str
    color: str
    label: str
    period: Duration
    region: str


class MetricOptions(MathOptions, total=False):
    """The options of a metric: the arguments of `aws_cloudwatch.MetricOptions`."""

    dimensions_map: Mapping[str, str]
    id: str
    stack_account: str
    stack_region: str
    statistic: str
    unit: cloudwatch.Unit
    visible: bool


class VariantMetrics:
    """The metrics of a variant of an endpoint: of an endpoint itself, those of its first variant.

    Every method takes the options of `aws_cloudwatch.MetricOptions`, and a minute is the period of each
    without one. Times are in milliseconds, shares in percent, and utilization is 0 to 100 for any number of
    GPUs or vCPUs. `metric` gives each metric as SageMaker publishes it.

    Nothing is created in a stack, and the endpoint is named by its literal name. So an alarm on a metric can
    exist before the endpoint does.
    """

    __slots__ = ()

    instance: InstanceType | None

    @property
    def _dimensions(self) -> Mapping[str, str]:
        """The dimensions of the variant's metrics."""
        raise NotImplementedError

    def metric(self, metric_name: str, **options: Unpack[MetricOptions]) -> cloudwatch.Metric:
        """A metric as SageMaker publishes it, by its name, such as "Invocations"."""
        fact = metric_fact(metric_name)
        dimensions = dict(self._dimensions)
        if not fact.of_variant:
            del dimensions["VariantName"]
        usual: MetricOptions = {"dimensions_map": dimensions, "statistic": fact.statistic, "period": MINUTE}
        if fact.label:
            usual["label"] = fact.label
        merged: MetricOptions = {**usual, **options}
        return cloudwatch.Metric(metric_name=fact.name, namespace=fact.namespace, **merged)

    def metric_per_instance(
        self, metric_name: str, *, statistic: str | None = None
    ) -> cloudwatch.MathExpression:
        """A metric with a line for each instance: a search for the dimension InstanceId.

        Finds something only where the endpoint's configuration enables enhanced metrics. AWS documents them
        for single-model endpoints and, for what a host publishes, for all real-time endpoints. For charts:
        CloudWatch allows no search in an alarm.
        """
        fact = metric_fact(metric_name)
        named = " ".join(f'{key}="{value}"' for key, value in self._dimensions.items())
        return cloudwatch.MathExpression(
            expression=(
                f'SEARCH(\'Namespace="{fact.namespace}" MetricName="{fact.name}" {named} InstanceId\', '
                f"'{statistic or fact.statistic}', {MINUTE.to_seconds()})"
            ),
            using_metrics={},
            label=fact.label,
            period=MINUTE,
        )

    def metric_invocations(self, **options: Unpack[MetricOptions]) -> cloudwatch.Metric:
        """Requests."""
        return self.metric("Invocations", **options)

    def metric_invocations_per_instance(self, **options: Unpack[MetricOptions]) -> cloudwatch.Metric:
        """Requests, each counted as one divided by the number of instances."""
        return self.metric("InvocationsPerInstance", **options)

    def metric_invocation_4xx_errors(self, **options: Unpack[MetricOptions]) -> cloudwatch.Metric:
        """Requests that were answered with 4XX; 429 among them means that a model was being loaded."""
        return self.metric("Invocation4XXErrors", **options)

    def metric_invocation_5xx_errors(self, **options: Unpack[MetricOptions]) -> cloudwatch.Metric:
        """Requests that were answered with 5XX."""
        return self.metric("Invocation5XXErrors", **options)

    def metric_invocation_model_errors(self, **options: Unpack[MetricOptions]) -> cloudwatch.Metric:
        """Requests that the container did not answer with success, bad input of clients included."""
        return self.metric("InvocationModelErrors", **options)

    def metric_error_rate(
        self,
        error: Failure = "Invocation5XXErrors",
        *,
        min_requests: float = 0,
        **options: Unpack[MathOptions],
    ) -> AnyMetric:
        """The share of requests that failed, in percent; 0 in periods with fewer than `min_requests`.

        One failure of two requests is half of them, and no reason to page anyone.
        """
        label = options.get("label", f"{METRICS[error].label}, %")
        if known(min_requests) == 0:
            share = self.metric(error, **inner_options(options, statistic="Average", label=label))
            return _in_unit(share, "* 100", options)
        return _math(
            f"IF(FILL(requests, 0) >= {math_number(min_requests)}, FILL(failed, 0) / requests * 100, 0)",
            {
                "requests": self._requests_counted(error, options),
                "failed": self.metric(error, **inner_options(options)),
            },
            options,
            label=label,
        )

    def metric_model_latency(self, *, min_requests: float = 0, **options: Unpack[MetricOptions]) -> AnyMetric:
        """The container's time for a request, in milliseconds, without loading the model; p99 by default.

        0 in periods with fewer than `min_requests`, whose slowest hundredth is the slowest of them.
        """
        if known(min_requests) == 0:
            return self._scaled("ModelLatency", "/ 1000", options)
        slow = self.metric("ModelLatency", **options)
        return _math(
            f"IF(FILL(requests, 0) >= {math_number(min_requests)}, slow / 1000, 0)",
            {"requests": self.metric("Invocations", **inner_options(options)), "slow": slow},
            options,
            label=slow.statistic,
        )

    def metric_overhead_latency(self, **options: Unpack[MetricOptions]) -> AnyMetric:
        """SageMaker's time for a request, in milliseconds, the wait for a model included; p99 by default."""
        return self._scaled("OverheadLatency", "/ 1000", options)

    def metric_concurrent_requests_per_model(self, **options: Unpack[MetricOptions]) -> cloudwatch.Metric:
        """Requests that are in a model at one time, queued ones included; published every ten seconds."""
        return self.metric("ConcurrentRequestsPerModel", **options)

    def metric_model_cache_hit(self, **options: Unpack[MetricOptions]) -> AnyMetric:
        """The share of requests that found their model loaded, in percent."""
        return self._scaled("ModelCacheHit", "* 100", {"label": "hits, %", **options})

    def metric_loaded_model_count(self, **options: Unpack[MetricOptions]) -> cloudwatch.Metric:
        """Loaded models on an instance; with the statistic "Sum" on all, and one on two counts twice."""
        return self.metric("LoadedModelCount", **options)

    def metric_model_loading_wait_time(self, **options: Unpack[MetricOptions]) -> AnyMetric:
        """A request's wait for its model, in milliseconds."""
        return self._scaled("ModelLoadingWaitTime", "/ 1000", options)

    def metric_model_downloading_time(self, **options: Unpack[MetricOptions]) -> AnyMetric:
        """The time of a download of a model from S3, in milliseconds."""
        return self._scaled("ModelDownloadingTime", "/ 1000", options)

    def metric_model_loading_time(self, **options: Unpack[MetricOptions]) -> AnyMetric:
        """The time of a load into Triton, in milliseconds; the statistic "SampleCount" counts the loads."""
        return self._scaled("ModelLoadingTime", "/ 1000", options)

    def metric_model_unloading_time(self, **options: Unpack[MetricOptions]) -> AnyMetric:
        """The time of an unload, in milliseconds; the statistic "SampleCount" counts the evictions."""
        return self._scaled("ModelUnloadingTime", "/ 1000", options)

    def metric_gpu_utilization(self, **options: Unpack[MetricOptions]) -> AnyMetric:
        """The utilization of the GPUs, 0 to 100; no data on a type without a GPU."""
        return self._scaled("GPUUtilization", _divided_by(self._hardware.gpu_count), options)

    def metric_gpu_memory_utilization(self, **options: Unpack[MetricOptions]) -> AnyMetric:
        """The used memory of the GPUs, 0 to 100; no data on a type without a GPU."""
        return self._scaled("GPUMemoryUtilization", _divided_by(self._hardware.gpu_count), options)

    def metric_cpu_utilization(self, **options: Unpack[MetricOptions]) -> AnyMetric:
        """The utilization of the vCPUs, 0 to 100."""
        return self._scaled("CPUUtilization", _divided_by(self._hardware.vcpus), options)

    def metric_memory_utilization(self, **options: Unpack[MetricOptions]) -> cloudwatch.Metric:
        """The used memory of the containers, 0 to 100."""
        return self.metric("MemoryUtilization", **options)

    def metric_disk_utilization(self, **options: Unpack[MetricOptions]) -> cloudwatch.Metric:
        """The used space of the disk that keeps downloaded models, 0 to 100."""
        return self.metric("DiskUtilization", **options)

    def metric_instance_count(self, **options: Unpack[MathOptions]) -> cloudwatch.MathExpression:
        """The number of serving instances; no data without requests.

        SageMaker publishes no such number. In InvocationsPerInstance it counts each request as one divided by
        the number of instances, so it is the ratio of two sums.
        """
        return _math(
            "requests / requests_an_instance",
            {
                "requests": self.metric("Invocations", **inner_options(options)),
                "requests_an_instance": self.metric("InvocationsPerInstance", **inner_options(options)),
            },
            options,
            label="instances",
        )

    def metric_invocation_failures(self, **options: Unpack[MetricOptions]) -> cloudwatch.Metric:
        """Requests of an asynchronous endpoint that failed for whatever reason."""
        return self.metric("InvocationFailures", **options)

    def metric_approximate_backlog_size(self, **options: Unpack[MetricOptions]) -> cloudwatch.Metric:
        """Requests in the queue of an asynchronous endpoint, those being worked on included."""
        return self.metric("ApproximateBacklogSize", **options)

    def metric_approximate_backlog_size_per_instance(
        self, **options: Unpack[MetricOptions]
    ) -> cloudwatch.Metric:
        """The same divided by the instances; no data without instances."""
        return self.metric("ApproximateBacklogSizePerInstance", **options)

    def metric_approximate_age_of_oldest_request(self, **options: Unpack[MetricOptions]) -> cloudwatch.Metric:
        """The age of the oldest request in the queue of an asynchronous endpoint, in seconds."""
        return self.metric("ApproximateAgeOfOldestRequest", **options)

    def metric_has_backlog_without_capacity(self, **options: Unpack[MetricOptions]) -> cloudwatch.Metric:
        """1 while requests wait in the queue and there is no instance, else 0."""
        return self.metric("HasBacklogWithoutCapacity", **options)

    @property
    def _hardware(self) -> InstanceType:
        if self.instance is None:
            raise UNKNOWN_HARDWARE.error(
                what="the instance type of the endpoint is not known",
                where=f"the metrics of {self._dimensions['EndpointName']}",
                why="SageMaker adds the percentages of an instance's GPUs or vCPUs up",
                fix='name it, as in endpoint.variant(instance_type="ml.g5.2xlarge")',
            )
        return self.instance

    def _requests_counted(self, error: Failure, options: MathOptions) -> cloudwatch.Metric:  # noqa: ARG002
        return self.metric("Invocations", **inner_options(options))

    def _scaled(self, name: str, operation: str, options: MetricOptions) -> AnyMetric:
        return _in_unit(self.metric(name, **options), operation, options)


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointMetrics(VariantMetrics):
    """The metrics of an endpoint that is known by its name only; see `VariantMetrics`.

    Attributes:
        instance_type: Its instance type, which utilization is computed with.
    """

    endpoint_name: str
    variant_name: str = DEFAULT_VARIANT
    instance_type: str | None = None

    def __post_init__(self) -> None:
        """Refuse an unknown instance type."""
        _ = self.instance

    @property
    def instance(self) -> InstanceType | None:  # type: ignore[override] # nothing sets it
        """The instance type with its facts."""
        return find_instance_type(self.instance_type) if self.instance_type else None

    @property
    def _dimensions(self) -> Mapping[str, str]:
        return {"EndpointName": self.endpoint_name, "VariantName": self.variant_name}


def math_number(value: float) -> str:
    """A number inside an expression; one that is known only at deployment as a reference."""
    if not math.isfinite(value):
        raise NUMBER_RANGE.error(
            what=f"the number is {value}", where="the expression of a metric", fix="give a finite number"
        )
    return f"{value:g}" if known(value) is not None else Tokenization.stringify_number(value)


def _divided_by(units: int) -> str:
    return f"/ {units}" if units > 1 else ""


def inner_options(options: MathOptions, **more: Unpack[MetricOptions]) -> MetricOptions:
    """The options of a computed metric that hold for the metrics in it, and further ones."""
    inner: MetricOptions = {**more}
    if "account" in options:
        inner["account"] = options["account"]
    if "region" in options:
        inner["region"] = options["region"]
    return inner


def _in_unit(metric: cloudwatch.Metric, operation: str, options: MathOptions) -> AnyMetric:
    """A metric in another unit; the operation is empty if that is the same."""
    if not operation or metric.statistic.startswith(_WITHOUT_UNIT):
        return metric
    # Named after metric and statistic, so that one chart can hold several.
    variable = re.sub(r"\W", "_", f"raw_{metric.metric_name}_{metric.statistic}")
    return _math(f"{variable} {operation}", {variable: metric}, options, label=metric.label)


def _math(
    expression: str, using: Mapping[str, cloudwatch.IMetric], options: MathOptions, *, label: str | None
) -> cloudwatch.MathExpression:
    return cloudwatch.MathExpression(
        expression=expression,
        using_metrics=using,
        label=options.get("label", label),
        color=options.get("color"),
        period=options.get("period", MINUTE),
    )
