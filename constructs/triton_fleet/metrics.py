"""What SageMaker publishes about an endpoint: a table of facts, and CloudWatch metrics made from it.

Sources, read on 2026-11-21:

* https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
* https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-endpoint-cloudwatch-metrics.html

No metric here says which model it is about: SageMaker has none by model on a multi-model endpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from triton_models.instances import InstanceType

INVOCATION_NAMESPACE = "AWS/SageMaker"
HOST_NAMESPACE = "/aws/sagemaker/Endpoints"  # with a slash in front, in lower case

MetricUnit = Literal["None", "Microseconds", "Percent"]
MINUTE = Duration.minutes(1)
_MICROSECONDS_PER_MILLISECOND = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFact:
    """One metric as SageMaker publishes it, every minute, with the dimensions EndpointName and VariantName.

    Attributes:
        name: The metric's name.
        namespace: Where it is.
        unit: The unit of its values. Alarms do not filter on it: a filter that misses silences them.
        statistic: The statistic that means something.
        label: What a chart calls it.
    """

    name: str
    namespace: str
    unit: MetricUnit
    statistic: str
    label: str


def _facts(*rows: tuple[str, str, MetricUnit, str, str]) -> Mapping[str, MetricFact]:
    return MappingProxyType(
        {
            name: MetricFact(name=name, namespace=namespace, unit=unit, statistic=statistic, label=label)
            for name, namespace, unit, statistic, label in rows
        }
    )


_INVOCATION, _HOST = INVOCATION_NAMESPACE, HOST_NAMESPACE

METRICS: Mapping[str, MetricFact] = _facts(
    ("Invocations", _INVOCATION, "None", "Sum", "requests"),
    ("InvocationsPerInstance", _INVOCATION, "None", "Sum", "requests an instance"),
    # Errors are published as 1 or 0 for each request: Sum counts them, Average is the error rate.
    ("Invocation4XXErrors", _INVOCATION, "None", "Sum", "4XX"),
    ("Invocation5XXErrors", _INVOCATION, "None", "Sum", "5XX"),
    ("InvocationModelErrors", _INVOCATION, "None", "Sum", "model errors"),
    ("ModelLatency", _INVOCATION, "Microseconds", "p99", "model"),
    ("OverheadLatency", _INVOCATION, "Microseconds", "p99", "SageMaker overhead"),
    ("ConcurrentRequestsPerModel", _INVOCATION, "None", "Maximum", "concurrent requests"),
    ("ModelLoadingWaitTime", _INVOCATION, "Microseconds", "Average", "a request's wait"),
    ("ModelDownloadingTime", _INVOCATION, "Microseconds", "Average", "download from S3"),
    ("ModelLoadingTime", _INVOCATION, "Microseconds", "Average", "load into Triton"),
    ("ModelUnloadingTime", _INVOCATION, "Microseconds", "Average", "unload from Triton"),
    # 1 if the model was loaded when the request came, else 0: Average is the hit ratio.
    ("ModelCacheHit", _INVOCATION, "None", "Average", "hits"),
    # Each instance publishes its own count: Average is a typical instance, Sum the whole fleet.
    ("LoadedModelCount", _HOST, "None", "Average", "models an instance"),
    ("CPUUtilization", _HOST, "Percent", "Average", "CPU"),  # 0 to 100 times the vCPUs
    ("MemoryUtilization", _HOST, "Percent", "Average", "memory"),
    ("DiskUtilization", _HOST, "Percent", "Average", "disk"),
    ("GPUUtilization", _HOST, "Percent", "Average", "GPU"),  # 0 to 100 times the GPUs
    ("GPUMemoryUtilization", _HOST, "Percent", "Average", "GPU memory"),  # 0 to 100 times the GPUs
)


class EndpointMetrics:
    """The metrics of one variant of an endpoint, known by its literal name.

    Pure: it creates nothing in a stack and needs no endpoint, so an alarm can exist before the endpoint does.
    """

    def __init__(self, *, endpoint_name: str, variant_name: str, instance: InstanceType) -> None:
        """Name the variant.

        Args:
            endpoint_name: The endpoint's literal name.
            variant_name: The variant's name.
            instance: Its instance type: SageMaker adds the percentages of GPUs and of vCPUs up.
        """
        self._dimensions = {"EndpointName": endpoint_name, "VariantName": variant_name}
        self._instance = instance

    def metric(
        self,
        name: str,
        *,
        statistic: str | None = None,
        label: str | None = None,
        period: Duration = MINUTE,
    ) -> cloudwatch.Metric:
        """A metric just as SageMaker publishes it.

        Args:
            name: A name in `METRICS`.
            statistic: Another statistic than the one that usually means something.
            label: Another label.
            period: One minute is the finest that SageMaker publishes.
        """
        fact = METRICS[name]
        return cloudwatch.Metric(
            metric_name=fact.name,
            namespace=fact.namespace,
            dimensions_map=self._dimensions,
            statistic=statistic or fact.statistic,
            label=label or fact.label,
            period=period,
        )

    def error_percent(self, name: str) -> cloudwatch.IMetric:
        """The share of requests that failed, in percent: "Invocation4XXErrors", "Invocation5XXErrors", ..."""
        return self._scaled(name, factor=100, statistic="Average", label=f"{METRICS[name].label}, %")

    def milliseconds(self, name: str, *, statistic: str, label: str | None = None) -> cloudwatch.IMetric:
        """A duration in milliseconds; SageMaker publishes microseconds."""
        return self._scaled(
            name, divisor=_MICROSECONDS_PER_MILLISECOND, statistic=statistic, label=label or statistic
        )

    def cache_hit_percent(self) -> cloudwatch.IMetric:
        """The share of requests that found their model loaded, in percent."""
        return self._scaled("ModelCacheHit", factor=100, statistic="Average", label="hits, %")

    def gpu_percent(self) -> cloudwatch.IMetric:
        """How busy the GPUs are, 0 to 100 however many there are."""
        return self._scaled("GPUUtilization", divisor=self._instance.gpu_count)

    def gpu_memory_percent(self) -> cloudwatch.IMetric:
        """How full the memory of the GPUs is, 0 to 100 however many there are."""
        return self._scaled("GPUMemoryUtilization", divisor=self._instance.gpu_count)

    def cpu_percent(self) -> cloudwatch.IMetric:
        """How busy the vCPUs are, 0 to 100 however many there are."""
        return self._scaled("CPUUtilization", divisor=self._instance.vcpus)

    def loaded_models(self) -> cloudwatch.Metric:
        """Loaded models over all instances; a model on two instances counts twice."""
        return self.metric("LoadedModelCount", statistic="Sum", label="models, all instances")

    def evictions(self) -> cloudwatch.Metric:
        """How many models were unloaded."""
        return self.metric("ModelUnloadingTime", statistic="SampleCount", label="evictions")

    def instances(self) -> cloudwatch.MathExpression:
        """How many instances serve; nothing without traffic.

        SageMaker publishes no such number. In InvocationsPerInstance it counts each request as one divided by
        the number of instances, so the ratio of the two sums is it.
        """
        return cloudwatch.MathExpression(
            expression="requests / requests_an_instance",
            using_metrics={
                "requests": self.metric("Invocations"),
                "requests_an_instance": self.metric("InvocationsPerInstance"),
            },
            label="instances",
            period=MINUTE,
        )

    def thrashing(self, *, below_hit_percent: float) -> cloudwatch.MathExpression:
        """Evictions in minutes in which the cache hit ratio is below a bound, else 0.

        Evicting is what a full cache does all day. Evicting while requests miss means that models push each
        other out: the working set no longer fits.

        Args:
            below_hit_percent: The bound of the hit ratio, in percent.
        """
        return cloudwatch.MathExpression(
            expression=f"IF(FILL(hit_ratio, 1) * 100 < {below_hit_percent:g}, FILL(evicted, 0), 0)",
            using_metrics={"hit_ratio": self.metric("ModelCacheHit"), "evicted": self.evictions()},
            label="evictions while requests miss",
            period=MINUTE,
        )

    def _scaled(
        self,
        name: str,
        *,
        factor: int = 1,
        divisor: int = 1,
        statistic: str | None = None,
        label: str | None = None,
    ) -> cloudwatch.IMetric:
        metric = self.metric(name, statistic=statistic, label=label)
        operation = f" * {factor}" if factor != 1 else f" / {divisor}" if divisor != 1 else ""
        if not operation:
            return metric
        # Named after metric and statistic, so that one chart can hold several.
        variable = f"raw_{name}_{metric.statistic}"
        return cloudwatch.MathExpression(
            expression=f"{variable}{operation}",
            using_metrics={variable: metric},
            label=label or METRICS[name].label,
            period=MINUTE,
        )
