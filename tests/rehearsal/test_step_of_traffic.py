"""A step of traffic on real servers: the stack's own policy starts instances, and drains them afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from aws_for_tests.deployed_functions import until
from embedded_aws import EmbeddedAws
from tests.rehearsal.cdk_apps import cdk_of, write_app
from tests.rehearsal.served_models import python_model, tarball
from tests.rehearsal.traffic import Traffic, runtime_of
from triton_rehearsal.hosting.service import Hosting

pytestmark = pytest.mark.story

# A minute of the control plane takes a quarter of a second. The step sends 600 requests per minute and more.
SPEED = 240.0
QUIET_S = 0.5  # 120 requests per minute
APP = """
from aws_cdk import App, BootstraplessSynthesizer, CfnOutput, Stack
from triton_fleet import EndpointScaling, InvocationsPerInstance, ModelRepository, MultiModelEndpoint

app = App()
stack = Stack(app, "Fleet", synthesizer=BootstraplessSynthesizer())
repository = ModelRepository(stack, "Repository")
endpoint = MultiModelEndpoint(stack, "Endpoint", repository=repository, endpoint_name="search")
EndpointScaling(
    stack, "Scaling", endpoint=endpoint, max_capacity=3, targets=[InvocationsPerInstance(per_minute=300)]
)
CfnOutput(stack, "Bucket", value=repository.bucket.bucket_name)
app.synth()
"""
BODY = json.dumps({"inputs": [{"name": "X", "shape": [1, 1], "datatype": "FP32", "data": [1]}]}).encode()


class Requests(Traffic):
    """One request after the other."""

    def __init__(self, runtime: Any) -> None:
        super().__init__()
        self._runtime = runtime

    def ask(self) -> float:
        answer = self._runtime.invoke_endpoint(EndpointName="search", TargetModel="m.tar.gz", Body=BODY)
        value: float = json.loads(answer["Body"].read())["outputs"][0]["data"][0]
        return value


class Fleet:
    """The deployed fleet."""

    def __init__(self, aws: EmbeddedAws, hosting: Hosting) -> None:
        self.aws, self.hosting = aws, hosting
        self.runtime = runtime_of(aws, hosting)

    def serving(self, count: int) -> bool:
        """Return True if so many instances serve, by the description and by their servers."""
        described = self.aws.client("sagemaker").describe_endpoint(EndpointName="search")
        [variant] = described["ProductionVariants"]
        return variant["CurrentInstanceCount"] == count == len(self.hosting.instances("search"))


@pytest.fixture
def fleet(tmp_path: Any) -> Iterator[Fleet]:
    with EmbeddedAws(speed=SPEED) as aws, Hosting(aws, lookup_s=0.1) as hosting:
        bucket = cdk_of(aws, write_app(tmp_path / "app", APP)).deploy()["Fleet"]["Bucket"]
        aws.client("s3").put_object(Bucket=bucket, Key="models/m.tar.gz", Body=tarball(python_model()))
        hosting.start("search")
        yield Fleet(aws, hosting)


def test_instances_come_with_a_step_of_traffic_and_go_after_it_without_a_failed_request(fleet: Fleet) -> None:
    assert fleet.serving(1)
    with Requests(fleet.runtime) as traffic:
        until(lambda: fleet.serving(3))
        traffic.pause_s = QUIET_S
        until(lambda: fleet.serving(1))

    assert traffic.failures == []
    assert traffic.taken() == {1.0}
    found = fleet.aws.client("application-autoscaling").describe_scaling_activities(
        ServiceNamespace="sagemaker"
    )
    assert {activity["StatusCode"] for activity in found["ScalingActivities"]} == {"Successful"}
