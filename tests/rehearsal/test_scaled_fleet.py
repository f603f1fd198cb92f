"""The default fleet under a step of traffic: instances come and go by the policies of its own stack."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest
from synthesised_stacks import deploy_stack

from embedded_aws import EmbeddedAws
from tests.stacks.fleet_app import fleet_app

pytestmark = pytest.mark.story

START = datetime.now(timezone.utc).replace(second=0, microsecond=0) + timedelta(hours=1)
# The work of all requests, in percent of one GPU.
BUSY, QUIET = 150.0, 20.0


class Fleet:
    """The deployed fleet, whose instances share the work of each minute."""

    def __init__(self, aws: EmbeddedAws) -> None:
        self._aws = aws
        fleet = fleet_app(models="")
        deploy_stack(aws, fleet.models, "create")
        deploy_stack(aws, fleet.inference, "create")
        [row] = aws.client("sagemaker").list_endpoints()["Endpoints"]
        self.name = str(row["EndpointName"])
        self.minute = 0

    def minutes(self, count: int, *, work: float) -> list[int]:
        """Let minutes pass; return the instances after each."""
        return [self._minute(min(100.0, work / self.instances)) for _ in range(count)]

    def _minute(self, gpu: float) -> int:
        dimensions = [
            {"Name": "EndpointName", "Value": self.name},
            {"Name": "VariantName", "Value": "AllTraffic"},
        ]
        now = START + timedelta(minutes=self.minute)
        for namespace, name, unit, value in (
            ("/aws/sagemaker/Endpoints", "GPUUtilization", "Percent", gpu),
            ("AWS/SageMaker", "InvocationsPerInstance", "None", 1.0),
        ):
            datum = {"MetricName": name, "Dimensions": dimensions, "Timestamp": now}
            self._aws.client("cloudwatch").put_metric_data(
                Namespace=namespace, MetricData=[{**datum, "Unit": unit, "Value": value}]
            )
        self.minute += 1
        self._aws.evaluate(at=now + timedelta(minutes=1))
        return self.instances

    @property
    def instances(self) -> int:
        """The instances that serve."""
        described = self._aws.client("sagemaker").describe_endpoint(EndpointName=self.name)
        count: int = described["ProductionVariants"][0]["CurrentInstanceCount"]
        return count

    def causes(self) -> list[str]:
        """Return the policies that scaled, the newest first."""
        found = self._aws.client("application-autoscaling").describe_scaling_activities(
            ServiceNamespace="sagemaker"
        )
        return [each["Cause"].rpartition(" ")[2] for each in found["ScalingActivities"]]


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with EmbeddedAws() as aws:
        yield Fleet(aws)


def test_a_step_of_traffic_brings_a_second_and_a_third_instance_and_its_end_removes_them(
    fleet: Fleet,
) -> None:
    before = fleet.instances
    rising = fleet.minutes(22, work=BUSY)
    falling = fleet.minutes(18, work=QUIET)

    assert before == 1
    assert sorted(set(rising)) == [1, 2, 3]
    assert sorted(rising) == rising
    assert sorted(falling, reverse=True) == falling
    assert falling[-1] == 1
    assert [cause.endswith("GpuUtilization") for cause in fleet.causes()][1:] == [True, True]
