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


@dataclass(frozen=True, slots=True)
class MetricFact:
    """One metric as SageMaker publishes it, by the minute unless said otherwise."""

    name: str
    namespace: str
    unit: MetricUnit  # alarms do not filter on it: a filter that misses silences them
    statistic: str  # the one that means something
    label: str  # in charts; empty for the metric's name
    of_variant: bool = True  # it has the dimension VariantName, unlike those of a queue


_INVOCATION, _HOST = INVOCATION_NAMESPACE, HOST_NAMESPACE

_FACTS = (
    MetricFact("Invocations", _INVOCATION, "None", "Sum", "requests"),
    MetricFact("InvocationsPerInstance", _INVOCATION, "None", "Sum", "requests per instance"),
    # Errors are published as 1 or 0 for each request: Sum counts them, Average is the error rate.
    MetricFact("Invocation4XXErrors", _INVOCATION, "None", "Sum", "4XX"),
    MetricFact("Invocation5XXErrors", _INVOCATION, "None", "Sum", "5XX"),
    MetricFact("InvocationModelErrors", _INVOCATION, "None", "Sum", "model errors"),
    MetricFact("ModelLatency", _INVOCATION, "Microseconds", "p99", "model"),
    MetricFact("OverheadLatency", _INVOCATION, "Microseconds", "p99", "SageMaker overhead"),
    # Published every ten seconds.
    MetricFact("ConcurrentRequestsPerModel", _INVOCATION, "None", "Maximum", "concurrent requests"),
    MetricFact("ModelLoadingWaitTime", _INVOCATION, "Microseconds", "Average", "wait for the model"),
    MetricFact("ModelDownloadingTime", _INVOCATION, "Microseconds", "Average", "download from S3"),
    MetricFact("ModelLoadingTime", _INVOCATION, "Microseconds", "Average", "load into Triton"),
    MetricFact("ModelUnloadingTime", _INVOCATION, "Microseconds", "Average", "unload from Triton"),
    # 1 if the model was loaded when the request came, otherwise 0: Average is the hit ratio.
    MetricFact("ModelCacheHit", _INVOCATION, "None", "Average", "hits"),
    # Of asynchronous endpoints, which publish no Invocations.
    MetricFact("InvocationFailures", _INVOCATION, "None", "Sum", ""),
    MetricFact("ApproximateBacklogSize", _INVOCATION, "None", "Average", "", of_variant=False),
    MetricFact("ApproximateBacklogSizePerInstance", _INVOCATION, "None", "Average", "", of_variant=False),
    MetricFact("ApproximateAgeOfOldestRequest", _INVOCATION, "Seconds", "Maximum", "", of_variant=False),
    # 1 while requests wait and there is no instance, else 0.
    MetricFact("HasBacklogWithoutCapacity", _INVOCATION, "None", "Average", "", of_variant=False),
    # Each instance publishes its own count: Average is a typical instance, Sum the fleet.
    MetricFact("LoadedModelCount", _HOST, "None", "Average", "models per instance"),
    MetricFact("CPUUtilization", _HOST, "Percent", "Average", "CPU"),  # 0 to 100 times the vCPUs
    MetricFact("MemoryUtilization", _HOST, "Percent", "Average", "memory"),
    MetricFact("DiskUtilization", _HOST, "Percent", "Average", "disk"),
    MetricFact("GPUUtilization", _HOST, "Percent", "Average", "GPU"),  # 0 to 100 times the GPUs
    MetricFact("GPUMemoryUtilization", _HOST, "Percent", "Average", "GPU memory"),  # 0 to 100 times the GPUs
)

METRICS: Mapping[str, MetricFact] = MappingProxyType({each.name: each for each in _FACTS})


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
