from __future__ import annotations

import re
from typing import Any

import pytest
from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from triton_fleet import EndpointMetrics, FleetError
from triton_fleet.operations.alarm_declarations import missing_instances
from triton_fleet.parts.metrics.facts import METRICS
from triton_fleet.parts.metrics.published import MetricOptions


def _metrics(instance: str = "ml.g5.2xlarge") -> EndpointMetrics:
    return EndpointMetrics(endpoint_name="fleet", instance_type=instance)


def _using(metric: Any) -> dict[str, Any]:
    return dict(metric.using_metrics)


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_has_the_dimensions_under_which_sagemaker_publishes_it(name: str) -> None:
    metric = _metrics().metric(name)
    of_queue = name.startswith(("Approximate", "HasBacklog"))

    assert metric.dimensions == {"EndpointName": "fleet"} | (
        {} if of_queue else {"VariantName": "AllTraffic"}
    )
    assert metric.metric_name == name
    assert metric.period.to_seconds() == 60


@pytest.mark.parametrize(
    ("method", "options", "expression"),
    [
        ("model_latency", {"statistic": "p99.9"}, "raw_ModelLatency_p99_9 / 1000"),
        ("error_rate", {}, "raw_Invocation5XXErrors_Average * 100"),
        ("model_cache_hit", {}, "raw_ModelCacheHit_Average * 100"),
        ("gpu_utilization", {}, "raw_GPUUtilization_Average / 4"),
        ("gpu_memory_utilization", {}, "raw_GPUMemoryUtilization_Average / 4"),
        ("cpu_utilization", {}, "raw_CPUUtilization_Average / 48"),
    ],
)
def test_times_are_in_milliseconds_and_shares_in_percent_of_one_gpu_or_vcpu(
    method: str, options: dict[str, str], expression: str
) -> None:
    four_gpus = _metrics("ml.g5.12xlarge")

    assert getattr(four_gpus, f"metric_{method}")(**options).expression == expression


def test_busy_is_of_all_gpus_or_without_any_of_all_vcpus() -> None:
    def expression(instance: str) -> str:
        return missing_instances(_metrics(instance), fewest=2, most=4, busy_percent=90).expression

    assert "busy > 90 * 4 AND" in expression("ml.g5.12xlarge")


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_has_a_method_of_its_name(name: str) -> None:
    words = re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    given = getattr(_metrics(), f"metric_{words}")(statistic="SampleCount")

    assert _name(given) == (name, "SampleCount")


def test_options_are_passed_on_to_a_metric_and_to_what_is_computed_from_it() -> None:
    given: MetricOptions = {"period": Duration.minutes(5), "color": "#123456", "account": "123456789012"}
    rate = _metrics().metric_error_rate(period=given["period"], color="#123456", account="123456789012")
    latency = _metrics().metric_model_latency(**given, unit=cloudwatch.Unit.MICROSECONDS)

    for each in (rate, latency):
        assert isinstance(each, cloudwatch.MathExpression)
        assert (each.period.to_minutes(), each.color) == (5, "#123456")
        assert {metric.account for metric in _using(each).values()} == {"123456789012"}
    (metric,) = _using(latency).values()
    assert metric.unit is cloudwatch.Unit.MICROSECONDS


def test_a_metric_that_nobody_publishes_is_reported_with_the_one_that_was_meant() -> None:
    with pytest.raises(FleetError) as caught:
        _metrics().metric("ModelCacheHits")

    (problem,) = caught.value.problems
    assert problem.fix == "did you mean ModelCacheHit?"


def _name(metric: Any) -> tuple[str, str]:
    return metric.metric_name, metric.statistic
