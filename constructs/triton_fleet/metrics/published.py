"""CloudWatch metrics of an endpoint, made from the table of what SageMaker publishes.

Source of what enhanced metrics add, read on 2026-11-21:
https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch-enhanced-metrics.html
"""

from __future__ import annotations

from aws_cdk import Duration, Tokenization
from aws_cdk import aws_cloudwatch as cloudwatch

from triton_fleet.arguments.tokens import known
from triton_fleet.arguments.typed import typed
from triton_fleet.metrics.facts import (
    HOST_NAMESPACE,
    INVOCATION_NAMESPACE,
    METRICS,
    MetricFact,
    metric_fact,
)
from triton_models.facts.instances import InstanceType

__all__ = [
    "HOST_NAMESPACE",
    "INVOCATION_NAMESPACE",
    "METRICS",
    "MINUTE",
    "EndpointMetrics",
    "InvocationMetrics",
    "MetricFact",
    "math_number",
]

MINUTE = Duration.minutes(1)
_MICROSECONDS_PER_MILLISECOND = 1000


class InvocationMetrics:
    """The metrics of one variant of an endpoint, known by its literal name.

    Pure: it creates nothing in a stack and needs no endpoint, so an alarm can exist before the endpoint does.

    Attributes:
        endpoint_name: The endpoint's literal name.
    """

    @typed
    def __init__(self, *, endpoint_name: str, variant_name: str) -> None:
        """Name the variant.

        Args:
            endpoint_name: The endpoint's literal name.
            variant_name: The variant's name.
        """
        self.endpoint_name = endpoint_name
        self._dimensions = {"EndpointName": endpoint_name, "VariantName": variant_name}

    @typed
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
            period: A minute shows everything but ConcurrentRequestsPerModel, which comes every ten seconds.

        Raises:
            FleetError: SageMaker publishes no metric of that name.
        """
        fact = metric_fact(name)
        return cloudwatch.Metric(
            metric_name=fact.name,
            namespace=fact.namespace,
            dimensions_map=self._dimensions,
            statistic=statistic or fact.statistic,
            label=label or fact.label,
            period=period,
        )

    @typed
    def by_instance(self, name: str, *, statistic: str | None = None) -> cloudwatch.MathExpression:
        """A metric with a line for each instance: a search for the dimension InstanceId.

        Finds something only where the endpoint's configuration enables enhanced metrics. AWS documents them
        for single-model endpoints and, for what a host publishes, for all real-time endpoints. For charts:
        CloudWatch allows no search in an alarm.

        Args:
            name: A name in `METRICS`.
            statistic: Another statistic than the one that usually means something.

        Raises:
            FleetError: SageMaker publishes no metric of that name.
        """
        fact = metric_fact(name)
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

    @typed
    def error_percent(self, name: str) -> cloudwatch.IMetric:
        """The share of requests that failed, in percent: "Invocation4XXErrors", "Invocation5XXErrors", ..."""
        return self._scaled(name, factor=100, statistic="Average", label=f"{METRICS[name].label}, %")

    @typed
    def error_percent_of_many(self, name: str, *, minimum_requests: float) -> cloudwatch.MathExpression:
        """The share of requests that failed, in percent, in minutes with enough requests to speak of a share.

        One failure of two requests is half of them, and nothing to be woken up for. Zero in other minutes.

        Args:
            name: "Invocation4XXErrors", "Invocation5XXErrors" or "InvocationModelErrors".
            minimum_requests: How many requests in a minute are enough.
        """
        return cloudwatch.MathExpression(
            expression=(
                f"IF(FILL(requests, 0) >= {math_number(minimum_requests)}, "
                "FILL(failed, 0) / requests * 100, 0)"
            ),
            using_metrics={"requests": self.metric("Invocations"), "failed": self.metric(name)},
            label=f"{METRICS[name].label}, %",
            period=MINUTE,
        )

    @typed
    def milliseconds(self, name: str, *, statistic: str, label: str | None = None) -> cloudwatch.IMetric:
        """A duration in milliseconds; SageMaker publishes microseconds."""
        return self._scaled(
            name, divisor=_MICROSECONDS_PER_MILLISECOND, statistic=statistic, label=label or statistic
        )

    @typed
    def milliseconds_of_many(
        self, name: str, *, statistic: str, minimum_requests: float
    ) -> cloudwatch.MathExpression:
        """A duration in milliseconds, in minutes with enough requests for the statistic; else zero.

        Args:
            name: The duration's name in `METRICS`.
            statistic: Such as "p99", which of few requests is the slowest one.
            minimum_requests: How many requests in a minute are enough.
        """
        return cloudwatch.MathExpression(
            expression=(
                f"IF(FILL(requests, 0) >= {math_number(minimum_requests)}, "
                f"slow / {_MICROSECONDS_PER_MILLISECOND}, 0)"
            ),
            using_metrics={
                "requests": self.metric("Invocations"),
                "slow": self.metric(name, statistic=statistic),
            },
            label=statistic,
            period=MINUTE,
        )

    def cache_hit_percent(self) -> cloudwatch.IMetric:
        """The share of requests that found their model loaded, in percent."""
        return self._scaled("ModelCacheHit", factor=100, statistic="Average", label="hits, %")

    def loaded_models(self) -> cloudwatch.Metric:
        """Loaded models over all instances; a model on two instances counts twice."""
        return self.metric("LoadedModelCount", statistic="Sum", label="models, all instances")

    def evictions(self) -> cloudwatch.Metric:
        """The number of unloaded models."""
        return self.metric("ModelUnloadingTime", statistic="SampleCount", label="evictions")

    def loads(self) -> cloudwatch.Metric:
        """The number of loaded models."""
        return self.metric("ModelLoadingTime", statistic="SampleCount", label="loads")

    def instances(self) -> cloudwatch.MathExpression:
        """The number of serving instances; no data without traffic.

        SageMaker publishes no such number. In InvocationsPerInstance it counts each request as one divided by
        the number of instances, so the ratio of the two sums is it.
        """
        return cloudwatch.MathExpression(
            expression="requests / requests_an_instance",
            using_metrics=self._requests(),
            label="instances",
            period=MINUTE,
        )

    @typed
    def thrashing(self, *, below_hit_percent: float) -> cloudwatch.MathExpression:
        """Evictions in minutes in which the cache hit ratio is below a bound, else 0.

        Evicting is what a full cache does all day. Evicting while requests miss means that models push each
        other out: the working set no longer fits.

        Args:
            below_hit_percent: The bound of the hit ratio, in percent.
        """
        return cloudwatch.MathExpression(
            expression=(
                f"IF(FILL(hit_ratio, 1) * 100 < {math_number(below_hit_percent)}, FILL(evicted, 0), 0)"
            ),
            using_metrics={"hit_ratio": self.metric("ModelCacheHit"), "evicted": self.evictions()},
            label="evictions while requests miss",
            period=MINUTE,
        )

    def hosts_not_reporting(self) -> cloudwatch.MathExpression:
        """1 in minutes in which requests arrive and no instance reports, else 0.

        The newest minute may be a false 1, for requests and hosts are reported by different ways: ask for
        several.
        """
        return cloudwatch.MathExpression(
            expression="IF(FILL(requests, 0) > 0 AND FILL(reports, 0) == 0, 1, 0)",
            using_metrics={
                "requests": self.metric("Invocations"),
                "reports": self.metric("MemoryUtilization", statistic="SampleCount"),
            },
            label="requests arrive, no instance reports",
            period=MINUTE,
        )

    def _requests(self) -> dict[str, cloudwatch.IMetric]:
        return {
            "requests": self.metric("Invocations"),
            "requests_an_instance": self.metric("InvocationsPerInstance"),
        }

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


class EndpointMetrics(InvocationMetrics):
    """The metrics of one variant of an endpoint, and what they mean on its instance type.

    SageMaker adds the percentages of an instance's GPUs up, and those of its vCPUs.
    """

    @typed
    def __init__(self, *, endpoint_name: str, variant_name: str, instance: InstanceType) -> None:
        """Name the variant.

        Args:
            endpoint_name: The endpoint's literal name.
            variant_name: The variant's name.
            instance: Its instance type.
        """
        super().__init__(endpoint_name=endpoint_name, variant_name=variant_name)
        self._instance = instance

    def gpu_percent(self) -> cloudwatch.IMetric:
        """The utilization of the GPUs, 0 to 100 for any number of them; no data on a type without a GPU."""
        return self._scaled("GPUUtilization", divisor=max(self._instance.gpu_count, 1))

    def gpu_memory_percent(self) -> cloudwatch.IMetric:
        """The used memory of the GPUs, 0 to 100 for any number of them; no data on a type without a GPU."""
        return self._scaled("GPUMemoryUtilization", divisor=max(self._instance.gpu_count, 1))

    def cpu_percent(self) -> cloudwatch.IMetric:
        """The utilization of the vCPUs, 0 to 100 for any number of them."""
        return self._scaled("CPUUtilization", divisor=self._instance.vcpus)

    @typed
    def missing_instances(
        self, *, fewest: float, most: float, busy_percent: float
    ) -> cloudwatch.MathExpression:
        """1 in minutes in which there are fewer instances than there should be, else 0.

        That is fewer than the smallest capacity; or fewer than the largest although the GPUs, or on a type
        without any the vCPUs, are so busy that auto scaling must have asked for more.

        Args:
            fewest: The smallest capacity.
            most: The largest.
            busy_percent: How busy is too busy, 0 to 100.
        """
        gpus = self._instance.gpu_count
        name, units = ("GPUUtilization", gpus) if gpus else ("CPUUtilization", self._instance.vcpus)
        instances = "requests / requests_an_instance"
        # Half an instance of room: the number of instances is a ratio of two sums, so not quite an integer.
        too_few = f"{instances} < {math_number(fewest)} - 0.5"
        busy, below = math_number(busy_percent), f"{instances} < {math_number(most)} - 0.5"
        not_growing = f"busy > {busy} * {units} AND {below}"
        return cloudwatch.MathExpression(
            expression=f"IF({too_few} OR ({not_growing}), 1, 0)",
            using_metrics={**self._requests(), "busy": self.metric(name)},
            label="instances are missing",
            period=MINUTE,
        )


def math_number(value: float) -> str:
    """A number inside an expression; one that is known only at deployment as a reference."""
    return f"{value:g}" if known(value) is not None else Tokenization.stringify_number(value)
