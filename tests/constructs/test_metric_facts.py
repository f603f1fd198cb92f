from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import aws_cloudwatch as cloudwatch

from triton_fleet import EndpointMetrics
from triton_fleet.arguments.collector import FleetError
from triton_fleet.metrics.published import METRICS
from triton_models.facts.instances import INSTANCE_TYPES


def _metrics(instance: str = "ml.g5.2xlarge") -> EndpointMetrics:
    return EndpointMetrics(
        endpoint_name="fleet", variant_name="AllTraffic", instance=INSTANCE_TYPES[instance]
    )


def _expression(metric: Any) -> str:
    assert isinstance(metric, cloudwatch.MathExpression)
    return metric.expression


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_has_the_dimensions_under_which_sagemaker_publishes_it(name: str) -> None:
    metric = _metrics().metric(name)

    assert metric.dimensions == {"EndpointName": "fleet", "VariantName": "AllTraffic"}
    assert metric.metric_name == name
    assert metric.period.to_seconds() == 60


def test_what_a_host_publishes_is_in_the_namespace_with_the_slash() -> None:
    hosts = {name for name, fact in METRICS.items() if fact.namespace == "/aws/sagemaker/Endpoints"}

    assert hosts == {
        "LoadedModelCount",
        "CPUUtilization",
        "MemoryUtilization",
        "DiskUtilization",
        "GPUUtilization",
        "GPUMemoryUtilization",
    }
    assert {fact.namespace for name, fact in METRICS.items() if name not in hosts} == {"AWS/SageMaker"}


@pytest.mark.parametrize(
    ("name", "unit", "statistic"),
    [
        ("Invocations", "None", "Sum"),
        ("ModelLatency", "Microseconds", "p99"),
        ("ModelCacheHit", "None", "Average"),
        ("LoadedModelCount", "None", "Average"),
        ("GPUUtilization", "Percent", "Average"),
        ("ConcurrentRequestsPerModel", "None", "Maximum"),
    ],
)
def test_a_metric_has_its_unit_and_the_statistic_that_means_something(
    name: str, unit: str, statistic: str
) -> None:
    assert (METRICS[name].unit, METRICS[name].statistic) == (unit, statistic)
    assert _metrics().metric(name).statistic == statistic


def test_no_metric_filters_by_unit() -> None:
    assert all(_metrics().metric(name).unit is None for name in METRICS)


def test_a_duration_is_turned_from_microseconds_into_milliseconds() -> None:
    metric = _metrics().milliseconds("ModelLatency", statistic="p90")

    assert _expression(metric) == "raw_ModelLatency_p90 / 1000"


def test_errors_and_hits_are_ratios_in_percent() -> None:
    metrics = _metrics()

    assert (
        _expression(metrics.error_percent("Invocation5XXErrors")) == "raw_Invocation5XXErrors_Average * 100"
    )
    assert _expression(metrics.cache_hit_percent()) == "raw_ModelCacheHit_Average * 100"


def test_percentages_of_several_gpus_and_cpus_are_divided_among_them() -> None:
    four_gpus = _metrics("ml.g5.12xlarge")

    assert _expression(four_gpus.gpu_percent()).endswith(" / 4")
    assert _expression(four_gpus.gpu_memory_percent()).endswith(" / 4")
    assert _expression(four_gpus.cpu_percent()).endswith(" / 48")


def test_the_percentage_of_a_single_gpu_is_the_metric_itself() -> None:
    assert isinstance(_metrics().gpu_percent(), cloudwatch.Metric)


def test_the_number_of_instances_follows_from_two_sums() -> None:
    instances = _metrics().instances()

    assert instances.expression == "requests / requests_an_instance"
    statistics = {metric.statistic for metric in instances.using_metrics.values()}  # type: ignore[attr-defined]
    assert statistics == {"Sum"}


def test_thrash_counts_evictions_while_hits_are_few() -> None:
    thrashing = _metrics().thrashing(below_hit_percent=80)

    assert thrashing.expression == "IF(FILL(hit_ratio, 1) * 100 < 80, FILL(evicted, 0), 0)"
    assert thrashing.using_metrics["evicted"].statistic == "SampleCount"  # type: ignore[attr-defined]
    assert thrashing.using_metrics["evicted"].metric_name == "ModelUnloadingTime"  # type: ignore[attr-defined]


def test_a_share_counts_only_where_there_are_enough_requests() -> None:
    share = _metrics().error_percent_of_many("Invocation5XXErrors", minimum_requests=10)

    assert share.expression == "IF(FILL(requests, 0) >= 10, FILL(failed, 0) / requests * 100, 0)"
    assert {name: _name(metric) for name, metric in share.using_metrics.items()} == {
        "requests": ("Invocations", "Sum"),
        "failed": ("Invocation5XXErrors", "Sum"),
    }


def test_a_percentile_counts_only_where_there_are_enough_requests() -> None:
    slow = _metrics().milliseconds_of_many("ModelLatency", statistic="p99", minimum_requests=25)

    assert slow.expression == "IF(FILL(requests, 0) >= 25, slow / 1000, 0)"
    assert _name(slow.using_metrics["slow"]) == ("ModelLatency", "p99")


def test_busy_is_of_all_gpus_or_without_any_of_all_vcpus() -> None:
    def expression(instance: str) -> str:
        return _metrics(instance).missing_instances(fewest=2, most=4, busy_percent=90).expression

    assert "busy > 90 * 4 AND" in expression("ml.g5.12xlarge")


def test_loads_and_evictions_are_counted_by_how_often_they_were_timed() -> None:
    assert _name(_metrics().loads()) == ("ModelLoadingTime", "SampleCount")
    assert _name(_metrics().evictions()) == ("ModelUnloadingTime", "SampleCount")


def test_instances_are_reported_apart_by_a_search() -> None:
    search = _metrics().by_instance("GPUUtilization")

    assert search.expression == (
        'SEARCH(\'Namespace="/aws/sagemaker/Endpoints" MetricName="GPUUtilization"'
        ' EndpointName="fleet" VariantName="AllTraffic" InstanceId\', \'Average\', 60)'
    )


def test_only_the_concurrency_comes_more_often_than_every_minute() -> None:
    assert {name: fact.every_seconds for name, fact in METRICS.items() if fact.every_seconds != 60} == {
        "ConcurrentRequestsPerModel": 10
    }


def test_a_metric_that_nobody_publishes_is_reported_with_the_one_that_was_meant() -> None:
    with pytest.raises(FleetError) as caught:
        _metrics().metric("ModelCacheHits")

    (problem,) = caught.value.problems
    assert problem.fix == "did you mean ModelCacheHit?"


def _name(metric: Any) -> tuple[str, str]:
    return metric.metric_name, metric.statistic
