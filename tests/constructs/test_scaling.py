from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest
from aws_cdk import CfnParameter, Duration, Stack, TimeZone
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk.assertions import Annotations, Match, Template
from aws_cdk.aws_applicationautoscaling import AdjustmentType, Schedule
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
from triton_fleet.operations.scaling.steps import ScalingDirection, ScalingStep, StepScaling
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
    steps = [
        StepScaling(
            name="Full", metric=models, steps=[ScalingStep(at=50, change=1), ScalingStep(at=90, change=3)]
        )
    ]
    EndpointScaling(stack, "Scaling", endpoint=endpoint, targets=targets, steps=steps)

    Template.from_stack(stack).resource_count_is("AWS::ApplicationAutoScaling::ScalingPolicy", 7)
    assert refusals(stack) == []


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


OUT = (ScalingStep(at=500, change=1), ScalingStep(at=2000, change=4), ScalingStep(at=1000, change=2))
IN = (ScalingStep(at=100, change=-1), ScalingStep(at=20, change=-3))


def latency(endpoint: MultiModelEndpoint) -> cloudwatch.IMetric:
    return endpoint.metric_model_latency(statistic="p90")


Policy = Callable[..., dict[str, Any]]


@pytest.fixture
def policy(stack: Stack, endpoint: MultiModelEndpoint, resources: Resources) -> Policy:
    """Scales the endpoint by steps of its latency alone; gives the properties of the policy."""

    def scaled(**arguments: Any) -> dict[str, Any]:
        steps = StepScaling(**{"name": "Slow", "metric": latency(endpoint), **arguments})
        EndpointScaling(stack, "Scaling", endpoint=endpoint, targets=[], steps=[steps])
        [found] = resources("AWS::ApplicationAutoScaling::ScalingPolicy")
        return found

    return scaled


def test_steps_upwards_add_the_more_the_further_the_metric_is_off(policy: Policy) -> None:
    found = policy(steps=OUT)

    assert (found["PolicyType"], found["PolicyName"]) == ("StepScaling", "fleet-Slow")
    assert found["ScalingTargetId"]["Ref"].startswith("ScalingTarget")
    assert found["StepScalingPolicyConfiguration"] == {
        "AdjustmentType": "ChangeInCapacity",
        "Cooldown": 900,
        "MetricAggregationType": "Average",
        "StepAdjustments": [
            {"MetricIntervalLowerBound": 0, "MetricIntervalUpperBound": 500, "ScalingAdjustment": 1},
            {"MetricIntervalLowerBound": 500, "MetricIntervalUpperBound": 1500, "ScalingAdjustment": 2},
            {"MetricIntervalLowerBound": 1500, "ScalingAdjustment": 4},
        ],
    }


def test_steps_downwards_remove_the_more_the_further_the_metric_is_below(policy: Policy) -> None:
    configuration = policy(steps=IN, direction=ScalingDirection.IN)["StepScalingPolicyConfiguration"]

    assert configuration["Cooldown"] == 600
    assert configuration["StepAdjustments"] == [
        {"MetricIntervalLowerBound": -80, "MetricIntervalUpperBound": 0, "ScalingAdjustment": -1},
        {"MetricIntervalUpperBound": -80, "ScalingAdjustment": -3},
    ]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"direction": ScalingDirection.OUT, "steps": OUT}, ("GreaterThanOrEqualToThreshold", 500)),
        ({"direction": ScalingDirection.IN, "steps": IN}, ("LessThanOrEqualToThreshold", 100)),
    ],
)
def test_an_alarm_at_the_first_step_runs_the_policy(
    stack: Stack, endpoint: MultiModelEndpoint, given: dict[str, Any], expected: tuple[str, float]
) -> None:
    scaling = StepScaling(name="Steps", metric=latency(endpoint), out_of=2, **given)
    EndpointScaling(stack, "Scaling", endpoint=endpoint, targets=[], steps=[scaling])
    template = Template.from_stack(stack)
    [policy_id] = template.find_resources("AWS::ApplicationAutoScaling::ScalingPolicy")
    [alarm] = [each["Properties"] for each in template.find_resources("AWS::CloudWatch::Alarm").values()]

    assert alarm["AlarmActions"] == [{"Ref": policy_id}]
    assert (alarm["ComparisonOperator"], alarm["Threshold"]) == expected
    assert (alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (3, 2)
    assert alarm["TreatMissingData"] == "missing"
    assert alarm["AlarmName"] == "fleet-scaling-Steps"


def test_steps_may_be_percentages_of_the_fleet(policy: Policy) -> None:
    configuration = policy(
        steps=[ScalingStep(at=500, change=50)],
        adjustment=AdjustmentType.PERCENT_CHANGE_IN_CAPACITY,
        minimum_change=2,
        cooldown=Duration.minutes(1),
    )["StepScalingPolicyConfiguration"]

    assert configuration["AdjustmentType"] == "PercentChangeInCapacity"
    assert (configuration["MinAdjustmentMagnitude"], configuration["Cooldown"]) == (2, 60)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"steps": []}, "scaling-steps"),
        ({"direction": ScalingDirection.IN}, "scaling-steps"),
        (
            {"steps": [ScalingStep(at=5, change=0)], "adjustment": AdjustmentType.EXACT_CAPACITY},
            "scaling-steps",
        ),
        ({"name": "a/b"}, "policy-name"),
        ({"minutes": 0}, "number-range"),
        ({"out_of": 4}, "number-range"),
        ({"minimum_change": 0}, "number-range"),
        ({"cooldown": Duration.millis(1)}, "whole-time"),
    ],
)
def test_steps_that_cannot_work_are_refused(policy: Policy, change: dict[str, Any], rule: str) -> None:
    with reported(rule) as problems:
        policy(**{"steps": [ScalingStep(at=5, change=1)], **change})
    assert problems[0].where.endswith("steps of Fleet/Scaling")


@pytest.mark.parametrize("direction", ScalingDirection)
def test_an_exact_number_may_be_set_in_either_direction(policy: Policy, direction: ScalingDirection) -> None:
    found = policy(
        steps=[ScalingStep(at=5, change=1)], direction=direction, adjustment=AdjustmentType.EXACT_CAPACITY
    )

    assert found["StepScalingPolicyConfiguration"]["AdjustmentType"] == "ExactCapacity"


def test_where_a_step_begins_has_to_be_known(stack: Stack, policy: Policy) -> None:
    begin = CfnParameter(stack, "Begin", type="Number").value_as_number

    with pytest.raises(FleetError, match="a step's at is known only when the stack is deployed"):
        policy(steps=[ScalingStep(at=begin, change=1)])


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
