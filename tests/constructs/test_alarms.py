from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import CfnParameter, Duration, Stack
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Annotations, Match, Template
from declared import with_values
from synthesised import Resources

from triton_fleet import (
    Canary,
    EndpointAlarms,
    EndpointMetrics,
    EndpointScaling,
    FleetError,
    GreenFleetAlarms,
    ModelRepository,
    MultiModelEndpoint,
    Thresholds,
)
from triton_fleet.operations.rollback import RollbackAlarms
from triton_fleet.parts.arguments.late import late_problems

PAGES = {"fleet-page-ServerErrors", "fleet-page-ModelErrors", "fleet-page-Latency"}
TICKETS = {"fleet-ticket-Thrash", "fleet-ticket-Disk", "fleet-ticket-GpuMemory", "fleet-ticket-Silent"}


Alarms = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def alarms(stack: Stack, endpoint: MultiModelEndpoint, resources: Resources) -> Alarms:
    """Declares the alarms of the endpoint; gives the properties of each by its name."""

    def declared(**arguments: Any) -> dict[str, dict[str, Any]]:
        EndpointAlarms(stack, "Alarms", endpoint=endpoint, **arguments)
        return _alarms(resources)

    return declared


def _alarms(resources: Resources) -> dict[str, dict[str, Any]]:
    return {each["AlarmName"]: each for each in resources("AWS::CloudWatch::Alarm")}


def test_an_endpoint_that_cannot_grow_is_not_at_its_maximum(
    stack: Stack, endpoint: MultiModelEndpoint, alarms: Alarms
) -> None:
    scaling = EndpointScaling(stack, "Scaling", endpoint=endpoint, min_capacity=2, max_capacity=2)

    assert set(alarms(scaling=scaling)) == PAGES | TICKETS | {"fleet-ticket-NoCapacity"}


def test_every_threshold_reaches_its_alarm(alarms: Alarms) -> None:
    thresholds = Thresholds(
        server_error_percent=2,
        model_error_percent=7,
        latency_p99=Duration.millis(250),
        disk_percent=70,
        gpu_memory_percent=90,
    )
    alarms = alarms(thresholds=thresholds)

    assert {name: alarm["Threshold"] for name, alarm in alarms.items()} == {
        "fleet-page-ServerErrors": 2,
        "fleet-page-ModelErrors": 7,
        "fleet-page-Latency": 250,
        "fleet-ticket-Thrash": 0,
        "fleet-ticket-Disk": 70,
        "fleet-ticket-GpuMemory": 90,
        "fleet-ticket-Silent": 0,
    }
    assert {alarm["ComparisonOperator"] for alarm in alarms.values()} == {"GreaterThanThreshold"}


def _expression(alarm: dict[str, Any]) -> str:
    return str(next(query["Expression"] for query in alarm["Metrics"] if "Expression" in query))


def test_instances_are_missing_below_the_minimum_or_when_a_busy_fleet_does_not_grow(
    stack: Stack, endpoint: MultiModelEndpoint, alarms: Alarms
) -> None:
    scaling = EndpointScaling(stack, "Scaling", endpoint=endpoint, min_capacity=2, max_capacity=6)
    alarm = alarms(scaling=scaling, thresholds=Thresholds(busy_percent=80))["fleet-ticket-NoCapacity"]

    assert _expression(alarm) == (
        "IF(requests / requests_an_instance < 2 - 0.5"
        " OR (busy > 80 * 1 AND requests / requests_an_instance < 6 - 0.5), 1, 0)"
    )
    assert (alarm["Threshold"], alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (0, 20, 20)


def test_a_fleet_of_fixed_size_misses_instances_below_that_size(
    stack: Stack, repository: ModelRepository, resources: Resources
) -> None:
    fixed = MultiModelEndpoint(
        stack, "Endpoint", repository=repository, endpoint_name="fleet", initial_instance_count=3
    )
    EndpointAlarms(stack, "Alarms", endpoint=fixed)

    assert "< 3 - 0.5" in _expression(_alarms(resources)["fleet-ticket-NoCapacity"])


def test_tickets_can_go_to_other_people_than_pages(
    stack: Stack, resources: Resources, alarms: Alarms
) -> None:
    found = alarms(topic=sns.Topic(stack, "OnCall"), ticket_topic=sns.Topic(stack, "Team"))
    (composite,) = resources("AWS::CloudWatch::CompositeAlarm")
    notified = {str(alarm.get("AlarmActions")) for alarm in found.values()} - {"None"}

    assert "OnCall" in str(composite["AlarmActions"])
    assert len(notified) == 1
    assert "Team" in notified.pop()


def test_all_thresholds_that_no_metric_can_pass_are_reported_together(
    stack: Stack, endpoint: MultiModelEndpoint
) -> None:
    with pytest.raises(FleetError) as caught:
        EndpointAlarms(
            stack,
            "Alarms",
            endpoint=endpoint,
            thresholds=Thresholds(disk_percent=100, latency_p99=Duration.millis(0), minimum_requests=0),
        )

    assert [problem.where for problem in caught.value.problems] == [
        "disk_percent of thresholds of Fleet/Alarms",
        "minimum_requests of thresholds of Fleet/Alarms",
        "latency_p99 of thresholds of Fleet/Alarms",
    ]


def test_thresholds_may_come_with_the_deployment(stack: Stack, alarms: Alarms) -> None:
    number = CfnParameter(stack, "Number", type="Number").value_as_number
    alarm = alarms(thresholds=Thresholds(latency_p99=Duration.millis(number), minimum_requests=number))[
        "fleet-page-Latency"
    ]

    assert alarm["Threshold"] == {"Ref": "Number"}
    assert {"Ref": "Number"} in alarm["Metrics"][0]["Expression"]["Fn::Join"][1]


def test_a_rollback_is_decided_within_the_wait_of_every_deployment(
    stack: Stack, resources: Resources
) -> None:
    RollbackAlarms(stack, "Rollback", endpoint_name="fleet")
    longest = max(alarm["EvaluationPeriods"] for alarm in resources("AWS::CloudWatch::Alarm"))

    assert longest * 60 * 2 <= Canary().wait.to_seconds()


def test_a_rollback_alarm_needs_the_name_itself(stack: Stack, endpoint: MultiModelEndpoint) -> None:
    with pytest.raises(FleetError, match="endpoint_name is known only when the stack is deployed"):
        RollbackAlarms(stack, "Rollback", endpoint_name=endpoint.endpoint_name)


def test_rollback_alarms_of_two_variants_do_not_collide(stack: Stack, resources: Resources) -> None:
    RollbackAlarms(stack, "First", endpoint_name="fleet")
    RollbackAlarms(stack, "Second", endpoint_name="fleet", variant_name="Blue")

    assert len({each["AlarmName"] for each in resources("AWS::CloudWatch::Alarm")}) == 4


def test_the_scaling_of_another_endpoint_is_refused(stack: Stack, endpoint: MultiModelEndpoint) -> None:
    second = MultiModelEndpoint(stack, "Second", repository=endpoint.repository, endpoint_name="second")
    scaling = EndpointScaling(stack, "Scaling", endpoint=second)

    with pytest.raises(FleetError, match="same-variant"):
        EndpointAlarms(stack, "Alarms", endpoint=endpoint, scaling=scaling)


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
    stack: Stack, repository: ModelRepository
) -> None:
    endpoint = deployed_by_canary(stack, repository)

    def warnings() -> int:
        about = Match.string_like_regexp("without rollback alarms")
        return len(Annotations.from_stack(stack).find_warning("*", about))

    before = warnings()
    GreenFleetAlarms(stack, "Rollback", endpoint=endpoint)

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
