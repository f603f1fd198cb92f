from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import Duration, Stack
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from synthesised import Resources

from triton_fleet.endpoint.hosting.variants import DeployedVariant
from triton_fleet.operations.scaling.target import Cooldowns, ScalingTarget
from triton_fleet.operations.scaling.tracking import (
    ConcurrentRequests,
    CpuUtilization,
    GpuMemoryUtilization,
    GpuUtilization,
    InvocationsPerGpu,
    InvocationsPerInstance,
    MetricTarget,
    ModelLatency,
    default_targets,
)
from triton_models.facts.instances import instance_type

DIMENSIONS = [{"Name": "EndpointName", "Value": "fleet"}, {"Name": "VariantName", "Value": "AllTraffic"}]
Tracked = Callable[..., dict[str, Any]]


def variant(name: str = "ml.g5.2xlarge") -> DeployedVariant:
    return DeployedVariant(
        name="AllTraffic",
        literal_endpoint_name="fleet",
        instance=instance_type(name),
        initial_instance_count=1,
    )


@pytest.fixture
def tracked(stack: Stack, resources: Resources) -> Tracked:
    """The configuration that a target gives the policy of a variant."""

    def configuration(target: ScalingTarget, on: str = "ml.g5.2xlarge") -> dict[str, Any]:
        autoscaling.CfnScalingPolicy(
            stack,
            "Policy",
            policy_name="p",
            policy_type="TargetTrackingScaling",
            scaling_target_id="t",
            target_tracking_scaling_policy_configuration=target._tracking(variant(on), cooldowns=Cooldowns()),
        )
        [policy] = resources("AWS::ApplicationAutoScaling::ScalingPolicy")
        found: dict[str, Any] = policy["TargetTrackingScalingPolicyConfiguration"]
        return found

    return configuration


@pytest.mark.parametrize(
    ("target", "metric"),
    [
        (InvocationsPerGpu(per_minute=60), "SageMakerVariantInvocationsPerInstance"),
        (InvocationsPerInstance(per_minute=60), "SageMakerVariantInvocationsPerInstance"),
        (ConcurrentRequests(per_model=60), "SageMakerVariantConcurrentRequestsPerModelHighResolution"),
    ],
)
def test_what_application_auto_scaling_knows_by_name_is_named(
    tracked: Tracked, target: ScalingTarget, metric: str
) -> None:
    configuration = tracked(target)

    assert configuration["PredefinedMetricSpecification"] == {"PredefinedMetricType": metric}
    assert configuration["TargetValue"] == 60
    assert "CustomizedMetricSpecification" not in configuration


@pytest.mark.parametrize(
    ("target", "namespace", "metric", "unit"),
    [
        (GpuUtilization(), "/aws/sagemaker/Endpoints", "GPUUtilization", "Percent"),
        (GpuMemoryUtilization(percent=80), "/aws/sagemaker/Endpoints", "GPUMemoryUtilization", "Percent"),
        (CpuUtilization(), "/aws/sagemaker/Endpoints", "CPUUtilization", "Percent"),
        (ModelLatency(latency=Duration.millis(80)), "AWS/SageMaker", "ModelLatency", "Microseconds"),
    ],
)
def test_what_sagemaker_publishes_is_tracked_where_it_publishes_it(
    tracked: Tracked, target: ScalingTarget, namespace: str, metric: str, unit: str
) -> None:
    assert tracked(target)["CustomizedMetricSpecification"] == {
        "Namespace": namespace,
        "MetricName": metric,
        "Dimensions": DIMENSIONS,
        "Statistic": "Average",
        "Unit": unit,
    }


@pytest.mark.parametrize(
    ("target", "on", "value"),
    [
        (InvocationsPerGpu(per_minute=100), "ml.g5.2xlarge", 100),
        (InvocationsPerGpu(per_minute=100), "ml.g5.12xlarge", 400),
        (InvocationsPerInstance(per_minute=100), "ml.g5.12xlarge", 100),
        (GpuUtilization(percent=60), "ml.g5.12xlarge", 240),
        (GpuMemoryUtilization(percent=60), "ml.g5.12xlarge", 240),
        (CpuUtilization(percent=60), "ml.g5.2xlarge", 480),
        (CpuUtilization(percent=50), "ml.c5.xlarge", 200),
        (ModelLatency(latency=Duration.millis(250)), "ml.g5.12xlarge", 250_000),
        (ConcurrentRequests(per_model=4), "ml.g5.12xlarge", 4),
    ],
)
def test_a_target_for_one_gpu_or_vcpu_is_multiplied_by_how_many_the_instance_has(
    tracked: Tracked, target: ScalingTarget, on: str, value: float
) -> None:
    assert tracked(target, on)["TargetValue"] == value


def test_a_percentile_is_tracked_by_a_query(tracked: Tracked) -> None:
    [query] = tracked(ModelLatency(latency=Duration.millis(80), statistic="p90"))[
        "CustomizedMetricSpecification"
    ]["Metrics"]

    assert query["MetricStat"] == {
        "Stat": "p90",
        "Metric": {"Namespace": "AWS/SageMaker", "MetricName": "ModelLatency", "Dimensions": DIMENSIONS},
    }
    assert query["ReturnData"] is True


def test_a_metric_of_ones_own_is_tracked_as_it_is(tracked: Tracked) -> None:
    metric = cloudwatch.Metric(
        namespace="Shop",
        metric_name="Waiting",
        dimensions_map={"Queue": "images"},
        statistic="max",
        unit=cloudwatch.Unit.COUNT_PER_SECOND,
    )
    configuration = tracked(MetricTarget(name="Waiting", metric=metric, target=7))

    assert configuration["TargetValue"] == 7
    assert configuration["CustomizedMetricSpecification"] == {
        "Namespace": "Shop",
        "MetricName": "Waiting",
        "Dimensions": [{"Name": "Queue", "Value": "images"}],
        "Statistic": "Maximum",
        "Unit": "Count/Second",
    }


def test_an_expression_is_tracked_with_everything_it_is_made_of_and_returns_one_series(
    tracked: Tracked,
) -> None:
    waiting = cloudwatch.Metric(namespace="Shop", metric_name="Waiting", statistic="Sum")
    instances = variant().metric_instance_count()
    backlog = cloudwatch.MathExpression(
        expression="waiting / instances", using_metrics={"waiting": waiting, "instances": instances}
    )
    queries = tracked(MetricTarget(name="Backlog", metric=backlog, target=10))[
        "CustomizedMetricSpecification"
    ]["Metrics"]

    expressions = {query["Id"]: query["Expression"] for query in queries if "Expression" in query}
    assert expressions == {"instances": "requests / requests_an_instance", "result": "waiting / instances"}
    assert {query["Id"] for query in queries} == {*expressions, "waiting", "requests", "requests_an_instance"}
    assert [query["Id"] for query in queries if query["ReturnData"]] == ["result"]


def test_an_expression_may_have_a_variable_of_any_name(tracked: Tracked) -> None:
    metric = cloudwatch.Metric(namespace="Shop", metric_name="Waiting", statistic="Sum")
    doubled = cloudwatch.MathExpression(expression="result * 2", using_metrics={"result": metric})

    queries = tracked(MetricTarget(name="Doubled", metric=doubled, target=10))[
        "CustomizedMetricSpecification"
    ]["Metrics"]

    assert [query["Id"] for query in queries] == ["result", "result_"]


def test_a_targets_own_cooldowns_win(tracked: Tracked) -> None:
    own = Cooldowns(scale_out=Duration.seconds(0), scale_in=Duration.minutes(20))
    configuration = tracked(GpuUtilization(cooldowns=own))

    assert (configuration["ScaleOutCooldown"], configuration["ScaleInCooldown"]) == (0, 1200)


def test_a_fleet_of_gpus_follows_requests_and_gpus_and_one_without_follows_its_cpus() -> None:
    assert default_targets(variant("ml.g5.2xlarge")) == (InvocationsPerGpu(), GpuUtilization())
    assert default_targets(variant("ml.c5.xlarge")) == (CpuUtilization(),)
