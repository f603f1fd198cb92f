"""Changes of the counts and weights of an endpoint's variants, and what DescribeEndpoint shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from aws_for_tests.deployed_functions import until
from aws_for_tests.fixture import aws_fixture
from aws_for_tests.scaled_variant import IMAGE, TARGET, scaled, served
from embedded_aws import EmbeddedAws, LaunchError

aws = aws_fixture()
slow = aws_fixture(speed=1000.0)


def change(sagemaker: Any, **wanted: Any) -> None:
    sagemaker.update_endpoint_weights_and_capacities(
        EndpointName="e", DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", **wanted}]
    )


def live(sagemaker: Any) -> dict[str, Any]:
    found: dict[str, Any] = sagemaker.describe_endpoint(EndpointName="e")["ProductionVariants"][0]
    return found


def test_a_change_of_the_count_keeps_the_weight_and_the_other_way_round(aws: EmbeddedAws) -> None:
    sagemaker = served(aws)

    change(sagemaker, DesiredInstanceCount=3)
    counted = live(sagemaker)
    change(sagemaker, DesiredWeight=0.5)
    weighted = live(sagemaker)

    assert (counted["CurrentInstanceCount"], counted["CurrentWeight"]) == (3, 1.0)
    assert (weighted["CurrentInstanceCount"], weighted["CurrentWeight"]) == (3, 0.5)


def test_an_endpoint_is_updating_until_its_instances_have_come(slow: EmbeddedAws) -> None:
    sagemaker = served(slow)

    change(sagemaker, DesiredInstanceCount=3)
    during = sagemaker.describe_endpoint(EndpointName="e")
    with pytest.raises(ClientError, match="Cannot update in-progress endpoint"):
        change(sagemaker, DesiredInstanceCount=2)
    sagemaker.get_waiter("endpoint_in_service").wait(EndpointName="e", WaiterConfig={"Delay": 0.05})

    [variant] = during["ProductionVariants"]
    assert during["EndpointStatus"] == "Updating"
    assert (variant["CurrentInstanceCount"], variant["DesiredInstanceCount"]) == (1, 3)
    assert live(sagemaker)["CurrentInstanceCount"] == 3


@pytest.mark.parametrize(
    ("endpoint", "variants", "message"),
    [
        ("other", ["AllTraffic"], "Could not find endpoint"),
        ("e", ["Other"], "not present within endpoint configuration"),
        ("e", ["AllTraffic", "AllTraffic"], "non-unique"),
    ],
)
def test_a_change_of_what_is_not_there_is_refused(
    aws: EmbeddedAws, endpoint: str, variants: list[str], message: str
) -> None:
    sagemaker = served(aws)
    changes = [{"VariantName": name, "DesiredInstanceCount": 2} for name in variants]

    with pytest.raises(ClientError, match=message):
        sagemaker.update_endpoint_weights_and_capacities(
            EndpointName=endpoint, DesiredWeightsAndCapacities=changes
        )


def test_an_endpoint_shows_the_images_of_its_models_by_digest(aws: EmbeddedAws) -> None:
    [image] = live(served(aws))["DeployedImages"]

    assert image["SpecifiedImage"] == IMAGE
    assert image["ResolvedImage"].startswith(f"{IMAGE.rpartition(':')[0]}@sha256:")


class FullHost:
    """A host with room for one instance."""

    def launch(self, endpoint: str, config: str) -> None:
        """Not called: no deployment is made."""

    def refresh(self, endpoint: str) -> None:
        """Nothing to note."""

    def end(self, endpoint: str) -> None:
        """Nothing to end."""

    def flush_metrics(self) -> None:
        """Nothing to write."""

    def scale(self, endpoint: str, counts: Mapping[str, int]) -> None:
        if counts["AllTraffic"] > 1:
            msg = f"no room for {counts['AllTraffic']} instances of {endpoint}"
            raise LaunchError(msg)


def test_instances_that_do_not_start_leave_the_count_as_it_was_with_the_reason(aws: EmbeddedAws) -> None:
    sagemaker = served(aws)
    aws.attach(FullHost())

    change(sagemaker, DesiredInstanceCount=3)
    sagemaker.get_waiter("endpoint_in_service").wait(EndpointName="e", WaiterConfig={"Delay": 0.05})

    found = sagemaker.describe_endpoint(EndpointName="e")
    assert found["FailureReason"] == "no room for 3 instances of e"
    assert (live(sagemaker)["CurrentInstanceCount"], live(sagemaker)["DesiredInstanceCount"]) == (1, 1)


def test_the_activity_of_instances_that_do_not_come_has_failed(aws: EmbeddedAws) -> None:
    def activity() -> tuple[str, str]:
        [found] = scaling.describe_scaling_activities(ServiceNamespace="sagemaker")["ScalingActivities"]
        return found["StatusCode"], found["StatusMessage"]

    scaling = scaled(aws)
    aws.attach(FullHost())

    scaling.register_scalable_target(**TARGET, MinCapacity=2, MaxCapacity=4)
    until(lambda: activity()[0] != "InProgress")

    failed = "Failed to set desired instance count to 2. Reason: no room for 2 instances of e"
    assert activity() == ("Failed", failed)
