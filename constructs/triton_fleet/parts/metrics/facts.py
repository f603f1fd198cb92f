"""The metrics that SageMaker publishes about an endpoint: a table of facts.

Sources, read on 2026-11-21:

* https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
* https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-endpoint-cloudwatch-metrics.html
* https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-monitor.html

No metric here says which model it is about: SageMaker has no metric by model on a multi-model endpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from triton_models.base.checks import Check
from triton_models.base.suggest import did_you_mean

UNKNOWN_METRIC = Check(id="unknown-metric", source="the table of triton_fleet.parts.metrics.facts")

INVOCATION_NAMESPACE = "AWS/SageMaker"
DEFAULT_VARIANT = "AllTraffic"
HOST_NAMESPACE = "/aws/sagemaker/Endpoints"  # with a slash in front, in lower case

MetricUnit = Literal["None", "Microseconds", "Seconds", "Percent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFact:
    """One metric as SageMaker publishes it, by the minute unless said otherwise.

    Attributes:
        name: The metric's name.
        namespace: Its namespace.
        unit: The unit of its values. Alarms do not filter on it: a filter that misses silences them.
        statistic: The statistic that means something.
        label: Its label in charts; empty for the metric's name.
        of_variant: True if it has the dimension VariantName besides EndpointName.
    """

    name: str
    namespace: str
    unit: MetricUnit
    statistic: str
    label: str
    of_variant: bool = True


# Of the queue of an asynchronous endpoint.
_OF_ENDPOINT = frozenset(
    {
        "ApproximateBacklogSize",
        "ApproximateBacklogSizePerInstance",
        "ApproximateAgeOfOldestRequest",
        "HasBacklogWithoutCapacity",
    }
)


def _facts(*rows: tuple[str, str, MetricUnit, str, str]) -> Mapping[str, MetricFact]:
    return MappingProxyType(
        {
            name: MetricFact(
                name=name,
                namespace=namespace,
                unit=unit,
                statistic=statistic,
                label=label,
                of_variant=name not in _OF_ENDPOINT,
            )
            for name, namespace, unit, statistic, label in rows
        }
    )


_INVOCATION, _HOST = INVOCATION_NAMESPACE, HOST_NAMESPACE

METRICS: Mapping[str, MetricFact] = _facts(
    ("Invocations", _INVOCATION, "None", "Sum", "requests"),
    ("InvocationsPerInstance", _INVOCATION, "None", "Sum", "requests per instance"),
    # Errors are published as 1 or 0 for each request: Sum counts them, Average is the error rate.
    ("Invocation4XXErrors", _INVOCATION, "None", "Sum", "4XX"),
    ("Invocation5XXErrors", _INVOCATION, "None", "Sum", "5XX"),
    ("InvocationModelErrors", _INVOCATION, "None", "Sum", "model errors"),
    ("ModelLatency", _INVOCATION, "Microseconds", "p99", "model"),
    ("OverheadLatency", _INVOCATION, "Microseconds", "p99", "SageMaker overhead"),
    # Published every ten seconds.
    ("ConcurrentRequestsPerModel", _INVOCATION, "None", "Maximum", "concurrent requests"),
    ("ModelLoadingWaitTime", _INVOCATION, "Microseconds", "Average", "wait for the model"),
    ("ModelDownloadingTime", _INVOCATION, "Microseconds", "Average", "download from S3"),
    ("ModelLoadingTime", _INVOCATION, "Microseconds", "Average", "load into Triton"),
    ("ModelUnloadingTime", _INVOCATION, "Microseconds", "Average", "unload from Triton"),
    # 1 if the model was loaded when the request came, otherwise 0: Average is the hit ratio.
    ("ModelCacheHit", _INVOCATION, "None", "Average", "hits"),
    # Of asynchronous endpoints, which publish no Invocations.
    ("InvocationFailures", _INVOCATION, "None", "Sum", ""),
    ("ApproximateBacklogSize", _INVOCATION, "None", "Average", ""),
    ("ApproximateBacklogSizePerInstance", _INVOCATION, "None", "Average", ""),
    ("ApproximateAgeOfOldestRequest", _INVOCATION, "Seconds", "Maximum", ""),
    # 1 while requests wait and there is no instance, else 0.
    ("HasBacklogWithoutCapacity", _INVOCATION, "None", "Average", ""),
    # Each instance publishes its own count: Average is a typical instance, Sum the fleet.
    ("LoadedModelCount", _HOST, "None", "Average", "models per instance"),
    ("CPUUtilization", _HOST, "Percent", "Average", "CPU"),  # 0 to 100 times the vCPUs
    ("MemoryUtilization", _HOST, "Percent", "Average", "memory"),
    ("DiskUtilization", _HOST, "Percent", "Average", "disk"),
    ("GPUUtilization", _HOST, "Percent", "Average", "GPU"),  # 0 to 100 times the GPUs
    ("GPUMemoryUtilization", _HOST, "Percent", "Average", "GPU memory"),  # 0 to 100 times the GPUs
)


def metric_fact(name: str) -> MetricFact:
    """Return the facts about a metric."""
    if name not in METRICS:
        raise UNKNOWN_METRIC.error(
            what=f"there is no metric {name!r}",
            where="the metrics of an endpoint",
            why="CloudWatch accepts any name, and an alarm on one that is not published never goes off",
            fix=did_you_mean(name, METRICS, otherwise=f"use one of {', '.join(METRICS)}"),
        )
    return METRICS[name]
