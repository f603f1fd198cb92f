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
    RollbackAlarms,
    Thresholds,
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


def test_one_statement_rolls_back_on_the_failures_of_the_new_fleet(
    stack: Stack, canary: MultiModelEndpoint
) -> None:
    alarms = GreenFleetAlarms(stack, "Rollback", endpoint=canary).alarms

    assert list(alarms) == ["NewFleetServerErrors", "NewFleetModelErrors"]
    assert rolled_back_on(stack) == [stack.resolve(each.alarm_name)["Ref"] for each in alarms.values()]


def test_they_see_the_configuration_that_is_being_deployed_and_no_other(
    stack: Stack, canary: MultiModelEndpoint, resources: Resources
) -> None:
    GreenFleetAlarms(stack, "Rollback", endpoint=canary)
    [config] = Template.from_stack(stack).find_resources("AWS::SageMaker::EndpointConfig")

    metrics = [
        query["MetricStat"]
        for alarm in resources("AWS::CloudWatch::Alarm")
        for query in alarm["Metrics"]
        if "MetricStat" in query
    ]

    assert len(metrics) == 4
    for each in metrics:
        dimensions = {one["Name"]: one["Value"] for one in each["Metric"]["Dimensions"]}
        assert dimensions == {
            "EndpointName": "fleet",
            "VariantName": "AllTraffic",
            "EndpointConfigName": {"Fn::GetAtt": [config, "EndpointConfigName"]},
        }


def test_they_need_no_metric_that_aws_does_not_document_for_a_fleet(
    stack: Stack, canary: MultiModelEndpoint, resources: Resources
) -> None:
    GreenFleetAlarms(stack, "Rollback", endpoint=canary, thresholds=Thresholds(minimum_requests=3))

    for alarm in resources("AWS::CloudWatch::Alarm"):
        expression, *queries = alarm["Metrics"]
        watched = {each["Id"]: each["MetricStat"] for each in queries}
        assert expression["Expression"] == "IF(FILL(requests, 0) >= 3, FILL(failed, 0) / requests * 100, 0)"
        assert {key: each["Stat"] for key, each in watched.items()} == {
            "requests": "SampleCount",
            "failed": "Sum",
        }
        assert len({each["Metric"]["MetricName"] for each in watched.values()}) == 1


def test_they_come_beside_those_of_the_endpoint_as_a_whole(stack: Stack, repository: ModelRepository) -> None:
    whole = RollbackAlarms(stack, "Whole", endpoint_name="fleet")
    endpoint = deployed_by_canary(stack, repository, rollback_alarms=whole.names)
    GreenFleetAlarms(stack, "New", endpoint=endpoint)

    assert len(set(rolled_back_on(stack))) == 4


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
