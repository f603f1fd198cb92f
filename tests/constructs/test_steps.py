from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import CfnParameter, Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk.assertions import Template
from aws_cdk.aws_applicationautoscaling import AdjustmentType
from synthesised import Resources

from tests.reported import reported
from triton_fleet import EndpointScaling, FleetError, MultiModelEndpoint
from triton_fleet.operations.scaling.steps import ScalingDirection, ScalingStep, StepScaling

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


def test_a_change_known_only_at_deployment_is_let_pass(stack: Stack, policy: Policy) -> None:
    change = CfnParameter(stack, "Change", type="Number").value_as_number
    found = policy(steps=[ScalingStep(at=5, change=int(change))])

    [adjustment] = found["StepScalingPolicyConfiguration"]["StepAdjustments"]
    assert adjustment["ScalingAdjustment"] == {"Ref": "Change"}


def test_where_a_step_begins_has_to_be_known(stack: Stack, policy: Policy) -> None:
    begin = CfnParameter(stack, "Begin", type="Number").value_as_number

    with pytest.raises(FleetError, match="a step's at is known only when the stack is deployed"):
        policy(steps=[ScalingStep(at=begin, change=1)])
