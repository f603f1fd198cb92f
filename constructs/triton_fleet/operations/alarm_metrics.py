"""Metrics that only alarms look at: 0 while all is well."""

from __future__ import annotations

from aws_cdk import aws_cloudwatch as cloudwatch

from triton_fleet.parts.metrics.published import MINUTE, VariantMetrics, math_number


def thrashing(metrics: VariantMetrics, *, below_hit_percent: float) -> cloudwatch.MathExpression:
    """Return the evictions in minutes with a cache hit ratio below a bound, otherwise 0.

    Evictions are normal for a full cache. Evictions while requests miss mean that models evict each other:
    the working set no longer fits.
    """
    return cloudwatch.MathExpression(
        expression=f"IF(FILL(hit_ratio, 1) * 100 < {math_number(below_hit_percent)}, FILL(evicted, 0), 0)",
        using_metrics={
            "hit_ratio": metrics.metric("ModelCacheHit"),
            "evicted": metrics.metric_model_unloading_time(statistic="SampleCount", label="evictions"),
        },
        label="evictions while requests miss",
        period=MINUTE,
    )


def hosts_not_reporting(metrics: VariantMetrics) -> cloudwatch.MathExpression:
    """Return 1 in minutes in which requests arrive and no instance reports, otherwise 0.

    The newest minute may be a false 1, because requests and hosts are reported separately: evaluate several.
    """
    return cloudwatch.MathExpression(
        expression="IF(FILL(requests, 0) > 0 AND FILL(reports, 0) == 0, 1, 0)",
        using_metrics={
            "requests": metrics.metric_invocations(),
            "reports": metrics.metric_memory_utilization(statistic="SampleCount"),
        },
        label="requests arrive, no instance reports",
        period=MINUTE,
    )


def missing_instances(
    metrics: VariantMetrics, *, fewest: float, most: float, busy_percent: float
) -> cloudwatch.MathExpression:
    """Return 1 in minutes with too few instances, otherwise 0.

    These are minutes with fewer instances than the minimum capacity, or with fewer than the maximum although
    the GPUs, or the vCPUs on a type without GPUs, are so busy that auto scaling must have requested more.
    """
    hardware = metrics._hardware
    gpus = hardware.gpu_count
    name, units = ("GPUUtilization", gpus) if gpus else ("CPUUtilization", hardware.vcpus)
    instances = metrics.metric_instance_count()
    # With a margin of half an instance: their number is a ratio of two sums, and not always an integer.
    too_few = f"{instances.expression} < {math_number(fewest)} - 0.5"
    busy, below = math_number(busy_percent), f"{instances.expression} < {math_number(most)} - 0.5"
    not_growing = f"busy > {busy} * {units} AND {below}"
    return cloudwatch.MathExpression(
        expression=f"IF({too_few} OR ({not_growing}), 1, 0)",
        using_metrics={**instances.using_metrics, "busy": metrics.metric(name)},
        label="missing instances",
        period=MINUTE,
    )
