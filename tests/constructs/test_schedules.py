from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest
from aws_cdk import CfnParameter, Stack, TimeZone
from aws_cdk.aws_applicationautoscaling import Schedule
from synthesised import Resources

from tests.reported import reported
from triton_fleet import EndpointScaling, FleetError, MultiModelEndpoint
from triton_fleet.operations.scaling.schedules import ScheduledCapacity

MORNING = Schedule.cron(week_day="MON-FRI", hour="7", minute="0")
NEW_YEAR = datetime(2027, 1, 1, tzinfo=timezone.utc)


Actions = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def actions(stack: Stack, endpoint: MultiModelEndpoint, resources: Resources) -> Actions:
    """Scales the endpoint; gives its scheduled actions."""

    def scheduled(**arguments: Any) -> list[dict[str, Any]]:
        EndpointScaling(stack, "Scaling", endpoint=endpoint, **arguments)
        [target] = resources("AWS::ApplicationAutoScaling::ScalableTarget")
        return list(target["ScheduledActions"])

    return scheduled


def test_the_range_changes_at_an_hour_of_a_time_zone(actions: Actions) -> None:
    morning = ScheduledCapacity(
        name="Morning",
        schedule=MORNING,
        min_capacity=2,
        max_capacity=8,
        time_zone=TimeZone.EUROPE_BERLIN,
        start=datetime(2026, 12, 1, tzinfo=timezone.utc),
        end=NEW_YEAR,
    )
    assert actions(schedules=[morning]) == [
        {
            "ScheduledActionName": "Morning",
            "Schedule": "cron(0 7 ? * MON-FRI *)",
            "Timezone": "Europe/Berlin",
            "StartTime": "2026-12-01T00:00:00Z",
            "EndTime": "2027-01-01T00:00:00Z",
            "ScalableTargetAction": {"MinCapacity": 2, "MaxCapacity": 8},
        }
    ]


def test_what_an_action_does_not_set_is_left_out(actions: Actions) -> None:
    fair = ScheduledCapacity(name="Fair", schedule=Schedule.at(NEW_YEAR), min_capacity=3)
    assert actions(schedules=[fair]) == [
        {
            "ScheduledActionName": "Fair",
            "Schedule": "at(2027-01-01T00:00:00)",
            "ScalableTargetAction": {"MinCapacity": 3},
        }
    ]


@pytest.mark.parametrize(("least", "most"), [(1, 1), (4, 4)])
def test_a_schedule_may_fix_the_number_of_instances(least: int, most: int, actions: Actions) -> None:
    fixed = ScheduledCapacity(name="Fixed", schedule=MORNING, min_capacity=least, max_capacity=most)
    assert actions(targets=[], schedules=[fixed])[0]["ScalableTargetAction"] == {
        "MinCapacity": least,
        "MaxCapacity": most,
    }


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


def test_a_capacity_known_only_at_deployment_is_let_pass(stack: Stack, actions: Actions) -> None:
    least = CfnParameter(stack, "Least", type="Number").value_as_number
    morning = ScheduledCapacity(name="Morning", schedule=MORNING, min_capacity=int(least), max_capacity=1)
    assert actions(min_capacity=2, max_capacity=4, schedules=[morning])[0]["ScalableTargetAction"][
        "MinCapacity"
    ] == {"Ref": "Least"}
