"""Alarms of the new fleet alone: what they look at, and how the endpoint learns of them without a circle."""

from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk.assertions import Annotations, Match, Template
from declared import with_values
from synthesised import Resources

from triton_fleet import (
    Canary,
    EndpointMetrics,
    FleetError,
    GreenFleetAlarms,
    ModelRepository,
    MultiModelEndpoint,
)
from triton_fleet.parts.arguments.late import late_problems


@pytest.fixture
def canary(stack: Stack, repository: ModelRepository) -> MultiModelEndpoint:
    return deployed_by_canary(stack, repository)


def deployed_by_canary(stack: Stack, repository: ModelRepository, **more: Any) -> MultiModelEndpoint:
    return MultiModelEndpoint(
        stack,
        "Canary",
        repository=repository,
        endpoint_name="fleet",
        initial_instance_count=4,
        deployment=Canary(),
        **with_values(more),
    )


def rolled_back_on(stack: Stack) -> list[str]:
    """The logical ids of the alarms that the endpoint names."""
    template = Template.from_stack(stack)  # refuses a circle of references
    [endpoint] = template.find_resources("AWS::SageMaker::Endpoint").values()
    alarms = endpoint["Properties"]["DeploymentConfig"]["AutoRollbackConfiguration"]["Alarms"]
    return [each["AlarmName"]["Ref"] for each in alarms]


def test_an_endpoint_that_has_got_them_is_not_warned_of_having_none(
    stack: Stack, canary: MultiModelEndpoint
) -> None:
    def warnings() -> int:
        about = Match.string_like_regexp("without rollback alarms")
        return len(Annotations.from_stack(stack).find_warning("*", about))

    before = warnings()
    GreenFleetAlarms(stack, "Rollback", endpoint=canary)

    assert (before, warnings()) == (1, 0)


def test_an_endpoint_that_does_not_say_how_it_is_deployed_is_refused(
    stack: Stack, endpoint: MultiModelEndpoint
) -> None:
    with pytest.raises(FleetError, match="rollback-alarms"):
        GreenFleetAlarms(stack, "Rollback", endpoint=endpoint)


def test_more_alarms_than_a_deployment_takes_are_refused(stack: Stack, repository: ModelRepository) -> None:
    nine = [f"alarm-{number}" for number in range(9)]
    endpoint = deployed_by_canary(stack, repository, rollback_alarms=nine)

    GreenFleetAlarms(stack, "Rollback", endpoint=endpoint)

    assert [problem.what for problem in late_problems(stack)] == ["Alarms has 11 entries"]


def test_alarms_of_ones_own_undo_a_deployment_and_may_be_described(
    stack: Stack, repository: ModelRepository, resources: Resources
) -> None:
    before = EndpointMetrics(endpoint_name="fleet").metric_model_latency()
    slow = before.create_alarm(stack, "Slow", threshold=500, evaluation_periods=3)
    endpoint = deployed_by_canary(stack, repository, rollback_alarms=[slow])
    metric = endpoint.metric_error_rate(label=endpoint.endpoint_config_name)
    failing = metric.create_alarm(stack, "Failing", threshold=1, evaluation_periods=3)
    endpoint.roll_back_on([failing])

    described = [
        statement["Resource"]
        for policy in resources("AWS::IAM::Policy")
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Action"] == "cloudwatch:DescribeAlarms"
    ]
    named = [stack.resolve(each.alarm_name)["Ref"] for each in (slow, failing)]
    assert rolled_back_on(stack) == named
    assert [each["Fn::Join"][1][-1]["Ref"] for each in described] == named
