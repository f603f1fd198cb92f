"""Updates of the app's own stacks, as configured by default: watched, and rolled back by an alarm."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest
from synthesised_stacks import deploy_stack

from tests.stacks.fleet_app import fleet_app
from triton_aws import EmbeddedAws

pytestmark = pytest.mark.story


def deploy(aws: EmbeddedAws, verb: str, **context: object) -> str:
    """Create or update both stacks. Returns the status and the reason of the endpoint's stack."""
    fleet = fleet_app(models="", **context)
    if verb == "create":
        deploy_stack(aws, fleet.models, verb)
    return deploy_stack(aws, fleet.inference, verb)


def endpoint(aws: EmbeddedAws) -> dict[str, Any]:
    sagemaker = aws.client("sagemaker")
    [row] = sagemaker.list_endpoints()["Endpoints"]
    described: dict[str, Any] = sagemaker.describe_endpoint(EndpointName=row["EndpointName"])
    return described


def turn(aws: EmbeddedAws, alarm: str, state: Literal["ALARM", "OK"]) -> None:
    aws.client("cloudwatch").set_alarm_state(AlarmName=alarm, StateValue=state, StateReason="a test")


@contextmanager
def failing(aws: EmbeddedAws, alarm: str) -> Iterator[None]:
    """Let an alarm fire as soon as a new fleet is watched."""
    over = threading.Event()

    def fire() -> None:
        while "Baking" not in str(endpoint(aws).get("PendingDeploymentSummary")):
            if over.wait(0.02):
                return
        turn(aws, alarm, "ALARM")

    thread = threading.Thread(target=fire)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_bad_update_of_the_default_fleet_is_undone_by_its_alarm_and_a_good_one_stays() -> None:
    with EmbeddedAws(speed=1.0) as aws:  # a wait of ten minutes, which the alarm ends early
        created = deploy(aws, "create")
        before = endpoint(aws)
        alarm = f"{before['EndpointName']}-rollback-NewFleetModelErrors"

        with failing(aws, alarm):
            undone = deploy(aws, "update", min_capacity=2)
        after = endpoint(aws)
        turn(aws, alarm, "OK")
        aws.set_speed(math.inf)
        updated = deploy(aws, "update", min_capacity=3)

        assert created.startswith("CREATE_COMPLETE")
        assert undone.startswith("UPDATE_ROLLBACK_COMPLETE")
        assert alarm in undone
        assert after["EndpointStatus"] == "InService"
        assert after["EndpointConfigName"] == before["EndpointConfigName"]
        assert updated.startswith("UPDATE_COMPLETE")
        assert endpoint(aws)["EndpointConfigName"] != before["EndpointConfigName"]
