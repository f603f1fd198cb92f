from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from aws_cdk import CfnParameter, Duration, Stack
from aws_cdk.assertions import Annotations, Match, Template
from botocore_model import violations
from synthesised import Resources

from triton_fleet import (
    Cooldowns,
    EndpointScaling,
    FleetError,
    GpuUtilization,
    InvocationsPerGpu,
    MultiModelEndpoint,
)
from triton_fleet.operations.scaling.steps import ScalingStep, StepScaling
from triton_fleet.operations.scaling.target import ScalingTarget
from triton_fleet.operations.scaling.tracking import (
    ConcurrentRequests,
    CpuUtilization,
    GpuMemoryUtilization,
    MetricTarget,
    ModelLatency,
)
from triton_models.facts.instances import instance_type

TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"


@pytest.fixture
def two_variants(endpoint: MultiModelEndpoint) -> MultiModelEndpoint:
    """An endpoint with a second variant, on a type without a GPU."""
    instance = instance_type("ml.c5.xlarge")
    second = replace(endpoint.variant(), name="Second", instance=instance)
    endpoint.variants = MappingProxyType({**endpoint.variants, second.name: second})
    return endpoint


Tracked = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def tracked(stack: Stack, endpoint: MultiModelEndpoint, resources: Resources) -> Tracked:
    """Scales the endpoint; gives the configuration of each policy by its name."""

    def scaled(**arguments: Any) -> dict[str, dict[str, Any]]:
        EndpointScaling(stack, "Scaling", endpoint=endpoint, **arguments)
        return _tracking(resources)

    return scaled


def _tracking(resources: Resources) -> dict[str, dict[str, Any]]:
    policies = resources("AWS::ApplicationAutoScaling::ScalingPolicy")
    return {each["PolicyName"]: each["TargetTrackingScalingPolicyConfiguration"] for each in policies}


def test_cooldowns_are_those_asked_for(tracked: Tracked) -> None:
    cooldowns = Cooldowns(scale_out=Duration.minutes(1), scale_in=Duration.minutes(30))
    (tracking,) = tracked(targets=[GpuUtilization()], cooldowns=cooldowns).values()

    assert (tracking["ScaleOutCooldown"], tracking["ScaleInCooldown"]) == (60, 1800)


def test_a_load_test_gives_a_target_with_room_to_grow() -> None:
    assert InvocationsPerGpu.from_load_test(requests_per_second=40).per_minute == 1200
    assert InvocationsPerGpu.from_load_test(requests_per_second=40, safety_factor=0.7).per_minute == 1680


def test_every_mistake_is_reported_at_once(stack: Stack, endpoint: MultiModelEndpoint) -> None:
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
        "one-target-per-metric",
        "scaling-target-reachable",
        "scaling-target-reachable",
    ]
    assert raised.value.problems[0].where == "min_capacity of Fleet/Scaling"


def test_numbers_known_only_at_deployment_are_let_pass(
    stack: Stack, endpoint: MultiModelEndpoint, resources: Resources
) -> None:
    most = CfnParameter(stack, "Most", type="Number").value_as_number
    EndpointScaling(stack, "Scaling", endpoint=endpoint, min_capacity=2, max_capacity=int(most))

    assert resources(TARGET)[0]["MaxCapacity"] == {"Ref": "Most"}


def test_two_variants_of_one_endpoint_scale_on_their_own(
    stack: Stack, two_variants: MultiModelEndpoint, resources: Resources
) -> None:
    targets = [GpuUtilization()]
    EndpointScaling(stack, "First", endpoint=two_variants, variant="AllTraffic", targets=targets)
    EndpointScaling(stack, "Second", endpoint=two_variants, variant="Second", max_capacity=9)

    assert {each["ResourceId"]: each["MaxCapacity"] for each in resources(TARGET)} == {
        "endpoint/fleet/variant/AllTraffic": 4,
        "endpoint/fleet/variant/Second": 9,
    }
    assert set(_tracking(resources)) == {"fleet-AllTraffic-GpuUtilization", "fleet-Second-CpuUtilization"}


def test_a_variant_that_is_scaled_already_is_refused(stack: Stack, endpoint: MultiModelEndpoint) -> None:
    EndpointScaling(stack, "First", endpoint=endpoint)

    with pytest.raises(FleetError, match="already scaled by Fleet/First") as raised:
        EndpointScaling(stack, "Second", endpoint=endpoint, variant="AllTraffic")
    assert [problem.rule for problem in raised.value.problems] == ["one-scaling-per-variant"]


@pytest.mark.parametrize("name", ["GpuUtilization", "Target"])
def test_a_name_that_is_taken_is_refused(stack: Stack, endpoint: MultiModelEndpoint, name: str) -> None:
    own = MetricTarget(name=name, metric=endpoint.metric_loaded_model_count(), target=50)

    with pytest.raises(FleetError, match=name) as raised:
        EndpointScaling(stack, "Scaling", endpoint=endpoint, targets=[GpuUtilization(), own])
    assert [problem.rule for problem in raised.value.problems] == ["one-target-per-metric"]


def test_every_kind_of_policy_is_one_that_its_service_accepts(
    stack: Stack, endpoint: MultiModelEndpoint
) -> None:
    models = endpoint.metric_loaded_model_count()
    targets: list[ScalingTarget] = [
        InvocationsPerGpu(),
        ConcurrentRequests(per_model=4, disable_scale_in=True),
        ModelLatency(latency=Duration.millis(80), statistic="p90"),
        CpuUtilization(),
        MetricTarget(name="Models", metric=models, target=50),
        MetricTarget(name="Instances", metric=endpoint.metric_instance_count(), target=2),
    ]
    steps = [
        StepScaling(
            name="Full", metric=models, steps=[ScalingStep(at=50, change=1), ScalingStep(at=90, change=3)]
        )
    ]
    EndpointScaling(stack, "Scaling", endpoint=endpoint, targets=targets, steps=steps)
    template = Template.from_stack(stack).to_json()

    types = [each["Type"] for each in template["Resources"].values()]
    assert types.count("AWS::ApplicationAutoScaling::ScalingPolicy") == 7
    assert violations(template) == []


def test_a_target_known_only_at_deployment_is_passed_on_where_it_is_taken_as_it_is(
    stack: Stack, tracked: Tracked
) -> None:
    rate = CfnParameter(stack, "Rate", type="Number").value_as_number
    assert tracked(targets=[InvocationsPerGpu(per_minute=rate)])["fleet-Invocations"]["TargetValue"] == {
        "Ref": "Rate"
    }


@pytest.mark.parametrize(
    "target",
    [
        lambda number: CpuUtilization(percent=number),
        lambda number: ModelLatency(latency=Duration.seconds(number)),
    ],
    ids=["multiplied", "converted"],
)
def test_a_target_known_only_at_deployment_cannot_be_computed_with(
    stack: Stack, endpoint: MultiModelEndpoint, target: Callable[[float], ScalingTarget]
) -> None:
    number = CfnParameter(stack, "Number", type="Number").value_as_number

    with pytest.raises(FleetError, match="known only when the stack is deployed") as raised:
        EndpointScaling(stack, "S", endpoint=endpoint, targets=[target(number)])
    assert [problem.rule for problem in raised.value.problems] == ["scaling-number"]


def test_the_memory_of_gpus_that_cache_models_is_advised_against(
    stack: Stack, endpoint: MultiModelEndpoint
) -> None:
    EndpointScaling(stack, "Scaling", endpoint=endpoint, targets=[GpuMemoryUtilization(percent=80)])

    found = Annotations.from_stack(stack).find_warning("/Fleet/Scaling", Match.any_value())
    assert "GPU memory is the cache" in str(found[0].entry.data)
