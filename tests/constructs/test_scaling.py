from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest
from aws_cdk import CfnParameter, Duration, Stack, TimeZone
from aws_cdk.assertions import Annotations, Match, Template
from aws_cdk.aws_applicationautoscaling import Schedule
from synthesised import Resources, refusals

from tests.reported import reported
from triton_fleet import (
    EndpointScaling,
    FleetError,
    GpuUtilization,
    InvocationsPerGpu,
    ModelRepository,
    MultiModelEndpoint,
    SingleModelEndpoint,
    Variant,
)
from triton_fleet.operations.scaling.schedules import ScheduledCapacity
from triton_fleet.operations.scaling.target import ScalingTarget
from triton_fleet.operations.scaling.tracking import (
    ConcurrentRequests,
    CpuUtilization,
    GpuMemoryUtilization,
    MetricTarget,
    ModelLatency,
)

TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"


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
                GpuUtilization(percent=100),
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


def test_two_variants_of_one_endpoint_scale_on_their_own(
    stack: Stack, repository: ModelRepository, resources: Resources
) -> None:
    first, second = (
        Variant(name=name, artifact="m-0123.tar.gz", instance_type=instance_type)
        for name, instance_type in {"First": "ml.g5.xlarge", "Second": "ml.c5.xlarge"}.items()
    )
    endpoint = SingleModelEndpoint(
        stack, "Endpoint", repository=repository, variants=[first, second], endpoint_name="fleet"
    )
    EndpointScaling(stack, "First", endpoint=endpoint, variant="First", targets=[GpuUtilization()])
    EndpointScaling(stack, "Second", endpoint=endpoint, variant="Second", max_capacity=9)
    policies = resources("AWS::ApplicationAutoScaling::ScalingPolicy")

    assert {each["ResourceId"]: each["MaxCapacity"] for each in resources(TARGET)} == {
        "endpoint/fleet/variant/First": 4,
        "endpoint/fleet/variant/Second": 9,
    }
    assert {each["PolicyName"] for each in policies} == {
        "fleet-First-GpuUtilization",
        "fleet-Second-CpuUtilization",
    }


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
    EndpointScaling(stack, "Scaling", endpoint=endpoint, targets=targets)

    Template.from_stack(stack).resource_count_is("AWS::ApplicationAutoScaling::ScalingPolicy", 6)
    assert refusals(stack) == []


def test_an_import_of_step_scaling_says_what_to_use() -> None:
    with pytest.raises(ImportError, match="StepScaling was removed from triton_fleet: use a target"):
        from triton_fleet import StepScaling  # noqa: F401


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


MORNING = Schedule.cron(week_day="MON-FRI", hour="7", minute="0")
NEW_YEAR = datetime(2027, 1, 1, tzinfo=timezone.utc)


def test_a_schedule_changes_the_range_and_leaves_out_what_it_does_not_set(
    stack: Stack, endpoint: MultiModelEndpoint, resources: Resources
) -> None:
    morning = ScheduledCapacity(
        name="Morning",
        schedule=MORNING,
        min_capacity=2,
        max_capacity=8,
        time_zone=TimeZone.EUROPE_BERLIN,
        start=datetime(2026, 12, 1, tzinfo=timezone.utc),
        end=NEW_YEAR,
    )
    fair = ScheduledCapacity(name="Fair", schedule=Schedule.at(NEW_YEAR), min_capacity=3)
    EndpointScaling(stack, "Scaling", endpoint=endpoint, schedules=[morning, fair])

    assert resources(TARGET)[0]["ScheduledActions"] == [
        {
            "ScheduledActionName": "Morning",
            "Schedule": "cron(0 7 ? * MON-FRI *)",
            "Timezone": "Europe/Berlin",
            "StartTime": "2026-12-01T00:00:00Z",
            "EndTime": "2027-01-01T00:00:00Z",
            "ScalableTargetAction": {"MinCapacity": 2, "MaxCapacity": 8},
        },
        {
            "ScheduledActionName": "Fair",
            "Schedule": "at(2027-01-01T00:00:00)",
            "ScalableTargetAction": {"MinCapacity": 3},
        },
    ]


AT_NEW_YEAR = {"schedule": Schedule.at(NEW_YEAR), "time_zone": TimeZone.EUROPE_BERLIN}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({}, "scheduled-capacity"),
        ({"min_capacity": 5}, "capacity-range"),
        ({"max_capacity": 1}, "capacity-range"),
        ({"min_capacity": 3, "start": NEW_YEAR, "end": NEW_YEAR}, "scheduled-capacity"),
        ({"min_capacity": 3, **AT_NEW_YEAR}, "scheduled-capacity"),
    ],
)
def test_a_schedule_that_cannot_work_is_refused(
    stack: Stack, endpoint: MultiModelEndpoint, change: dict[str, Any], rule: str
) -> None:
    scheduled = ScheduledCapacity(**{"name": "Morning", "schedule": MORNING, **change})

    with reported(rule) as problems:
        EndpointScaling(stack, "S", endpoint=endpoint, min_capacity=2, max_capacity=4, schedules=[scheduled])
    assert problems[0].where == "Morning of schedules of Fleet/S"


def test_two_actions_of_one_name_are_refused(stack: Stack, endpoint: MultiModelEndpoint) -> None:
    twice = [ScheduledCapacity(name="Morning", schedule=MORNING, min_capacity=2)] * 2

    with pytest.raises(FleetError, match="2 scheduled actions are named 'Morning'"):
        EndpointScaling(stack, "S", endpoint=endpoint, schedules=twice)
