from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from aws_cdk import CfnParameter, Duration, Stack
from aws_cdk.assertions import Template
from synthesised import Resources

from triton_fleet import (
    Cooldowns,
    EndpointScaling,
    FleetError,
    GpuUtilization,
    InvocationsPerGpu,
    ModelRepository,
    MultiModelEndpoint,
)


def _tracking(resources: Resources) -> dict[str, dict[str, Any]]:
    policies = resources("AWS::ApplicationAutoScaling::ScalingPolicy")
    return {each["PolicyName"]: each["TargetTrackingScalingPolicyConfiguration"] for each in policies}


def test_the_endpoints_variant_is_registered(
    stack: Stack, endpoint: MultiModelEndpoint, resources: Resources
) -> None:
    EndpointScaling(stack, "Scaling", endpoint=endpoint, max_capacity=8)

    assert resources("AWS::ApplicationAutoScaling::ScalableTarget") == [
        {
            "ServiceNamespace": "sagemaker",
            "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
            "ResourceId": "endpoint/fleet/variant/AllTraffic",
            "MinCapacity": 1,
            "MaxCapacity": 8,
        }
    ]


def test_the_endpoint_is_there_before_it_is_registered(stack: Stack, endpoint: MultiModelEndpoint) -> None:
    EndpointScaling(stack, "Scaling", endpoint=endpoint)
    template = Template.from_stack(stack)
    (target,) = template.find_resources("AWS::ApplicationAutoScaling::ScalableTarget").values()

    assert set(template.find_resources("AWS::SageMaker::Endpoint")) <= set(target["DependsOn"])


def test_requests_are_tracked_by_the_metric_that_sagemaker_predefines(
    stack: Stack, endpoint: MultiModelEndpoint, resources: Resources
) -> None:
    EndpointScaling(stack, "Scaling", endpoint=endpoint, targets=[InvocationsPerGpu(per_minute=900)])

    assert _tracking(resources) == {
        "fleet-Invocations": {
            "PredefinedMetricSpecification": {
                "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
            },
            "TargetValue": 900,
            "ScaleOutCooldown": 300,
            "ScaleInCooldown": 600,
        }
    }


def test_gpus_are_tracked_where_sagemaker_publishes_them(
    stack: Stack, endpoint: MultiModelEndpoint, resources: Resources
) -> None:
    EndpointScaling(stack, "Scaling", endpoint=endpoint, targets=[GpuUtilization(percent=70)])

    assert _tracking(resources) == {
        "fleet-GpuUtilization": {
            "CustomizedMetricSpecification": {
                "Namespace": "/aws/sagemaker/Endpoints",
                "MetricName": "GPUUtilization",
                "Dimensions": [
                    {"Name": "EndpointName", "Value": "fleet"},
                    {"Name": "VariantName", "Value": "AllTraffic"},
                ],
                "Statistic": "Average",
                "Unit": "Percent",
            },
            "TargetValue": 70,
            "ScaleOutCooldown": 300,
            "ScaleInCooldown": 600,
        }
    }


@pytest.mark.parametrize("gpu_count", [1, 4])
def test_targets_are_given_for_one_gpu_and_multiplied(
    stack: Stack, endpoint: MultiModelEndpoint, resources: Resources, gpu_count: int
) -> None:
    endpoint.instance = replace(endpoint.instance, gpu_count=gpu_count)
    EndpointScaling(
        stack, "S", endpoint=endpoint, targets=[InvocationsPerGpu(per_minute=100), GpuUtilization(percent=60)]
    )
    values = {name: each["TargetValue"] for name, each in _tracking(resources).items()}

    assert values == {"fleet-Invocations": 100 * gpu_count, "fleet-GpuUtilization": 60 * gpu_count}


def test_cooldowns_are_those_asked_for(
    stack: Stack, endpoint: MultiModelEndpoint, resources: Resources
) -> None:
    cooldowns = Cooldowns(scale_out=Duration.minutes(1), scale_in=Duration.minutes(30))
    EndpointScaling(stack, "S", endpoint=endpoint, targets=[GpuUtilization()], cooldowns=cooldowns)
    (tracking,) = _tracking(resources).values()

    assert (tracking["ScaleOutCooldown"], tracking["ScaleInCooldown"]) == (60, 1800)


def test_two_endpoints_of_a_stack_scale_on_their_own(
    stack: Stack, repository: ModelRepository, endpoint: MultiModelEndpoint, resources: Resources
) -> None:
    second = MultiModelEndpoint(stack, "Second", repository=repository, endpoint_name="second")
    EndpointScaling(stack, "Scaling", endpoint=endpoint)
    EndpointScaling(stack, "SecondScaling", endpoint=second)

    assert len(resources("AWS::ApplicationAutoScaling::ScalableTarget")) == 2
    assert len(_tracking(resources)) == 4


def test_a_load_test_gives_a_target_with_room_to_grow() -> None:
    assert InvocationsPerGpu.from_load_test(requests_per_second=40).per_minute == 1200
    assert InvocationsPerGpu.from_load_test(requests_per_second=40, safety_factor=0.7).per_minute == 1680


def test_every_mistake_is_told_at_once(stack: Stack, endpoint: MultiModelEndpoint) -> None:
    with pytest.raises(FleetError) as raised:
        EndpointScaling(
            stack,
            "Scaling",
            endpoint=endpoint,
            min_capacity=5,
            max_capacity=4,
            targets=[
                GpuUtilization(percent=60),
                GpuUtilization(percent=170),
                InvocationsPerGpu(per_minute=0),
            ],
        )

    assert [problem.rule for problem in raised.value.problems] == [
        "capacity-range",
        "one-target-a-metric",
        "scaling-target-reachable",
        "scaling-target-reachable",
    ]
    assert raised.value.problems[0].where == "min_capacity of Fleet/Scaling"


def test_scaling_without_a_target_is_a_mistake(stack: Stack, endpoint: MultiModelEndpoint) -> None:
    with pytest.raises(FleetError, match="no target"):
        EndpointScaling(stack, "Scaling", endpoint=endpoint, targets=[])


def test_numbers_known_only_at_deployment_are_let_pass(
    stack: Stack, endpoint: MultiModelEndpoint, resources: Resources
) -> None:
    most = CfnParameter(stack, "Most", type="Number").value_as_number
    EndpointScaling(stack, "Scaling", endpoint=endpoint, min_capacity=2, max_capacity=int(most))

    assert resources("AWS::ApplicationAutoScaling::ScalableTarget")[0]["MaxCapacity"] == {"Ref": "Most"}
