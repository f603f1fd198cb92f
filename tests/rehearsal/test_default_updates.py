"""Updates of the app's own stacks, as configured by default: watched, and rolled back by an alarm."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from synthesised_stacks import deploy_stack

from embedded_aws import EmbeddedAws
from tests.stacks.fleet_app import fleet_app

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


def fail(aws: EmbeddedAws, alarm: str) -> None:
    """Let every request to the metrics' fleet fail for five minutes, which the alarm then sees."""
    cloudwatch = aws.client("cloudwatch")
    [described] = cloudwatch.describe_alarms(AlarmNames=[alarm])["MetricAlarms"]
    stats = [query["MetricStat"] for query in described["Metrics"] if "MetricStat" in query]
    metric = stats[0]["Metric"]
    for minutes in range(1, 6):
        datum = {
            "MetricName": metric["MetricName"],
            "Dimensions": metric["Dimensions"],
            "Timestamp": aws.clock.now() - timedelta(minutes=minutes),
            "Values": [1.0],
            "Counts": [20.0],
        }
        cloudwatch.put_metric_data(Namespace=metric["Namespace"], MetricData=[datum])
    aws.evaluate()


@contextmanager
def failing(aws: EmbeddedAws, alarm: str) -> Iterator[None]:
    """Let all requests fail as soon as a new fleet is watched."""
    over = threading.Event()

    def fire() -> None:
        while "Baking" not in str(endpoint(aws).get("PendingDeploymentSummary")):
            if over.wait(0.02):
                return
        fail(aws, alarm)

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
        aws.evaluate()
        [recovered] = aws.client("cloudwatch").describe_alarms(AlarmNames=[alarm])["MetricAlarms"]
        aws.set_speed(math.inf)
        updated = deploy(aws, "update", min_capacity=3)

        assert created.startswith("CREATE_COMPLETE")
        assert undone.startswith("UPDATE_ROLLBACK_COMPLETE")
        assert alarm in undone
        assert recovered["StateValue"] == "OK"
        assert after["EndpointStatus"] == "InService"
        assert after["EndpointConfigName"] == before["EndpointConfigName"]
        assert updated.startswith("UPDATE_COMPLETE")
        assert endpoint(aws)["EndpointConfigName"] != before["EndpointConfigName"]


def test_where_the_fleet_is_replaced_a_setting_makes_another_endpoint() -> None:
    with EmbeddedAws() as aws:
        deploy(aws, "create", deployment="replace")
        before = endpoint(aws)
        updated = deploy(aws, "update", deployment="replace", min_capacity=2)
        after = endpoint(aws)

        assert updated.startswith("UPDATE_COMPLETE")
        assert after["EndpointName"] != before["EndpointName"]
        assert after["ProductionVariants"][0]["CurrentInstanceCount"] == 2
