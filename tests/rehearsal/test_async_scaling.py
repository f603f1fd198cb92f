"""An asynchronous endpoint goes to zero and comes back, by the alarms and policies of its own stack."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from aws_cdk import aws_s3 as s3
from synthesised_stacks import deploy_stack, small_stack

from aws_for_tests.deployed_functions import until
from embedded_aws import EmbeddedAws
from tests.rehearsal.served_models import onnx_model, tarball
from tests.rehearsal.test_hosting import FLOATS
from triton_fleet import (
    AsyncInference,
    EndpointAlarms,
    EndpointScaling,
    ModelRepository,
    S3Folder,
    SingleModelEndpoint,
    Variant,
)
from triton_rehearsal.hosting.model_data import split
from triton_rehearsal.hosting.service import Hosting

pytestmark = pytest.mark.story

# Seconds of the control plane per second: fifteen minutes without requests pass in four seconds.
SPEED = 240.0
NAME, ARTIFACT, BUCKET = "whisper", "whisper-0123456789ab.tar.gz", "fleet-requests"


def deploy(aws: EmbeddedAws) -> None:
    """Deploy an asynchronous endpoint that scales from zero to two instances."""
    stack = small_stack()
    bucket = s3.Bucket(stack, "Requests", bucket_name=BUCKET)
    endpoint = SingleModelEndpoint(
        stack,
        "Endpoint",
        repository=ModelRepository(stack, "Repository"),
        variants=[Variant(artifact=ARTIFACT)],
        endpoint_name=NAME,
        artifact_timeout=None,
        async_inference=AsyncInference(
            requests=S3Folder(bucket=bucket, prefix="requests"),
            output=S3Folder(bucket=bucket, prefix="answers"),
            failure=S3Folder(bucket=bucket, prefix="failures"),
        ),
    )
    EndpointScaling(stack, "Scaling", endpoint=endpoint, min_capacity=0, max_capacity=2)
    EndpointAlarms(stack, "Alarms", endpoint=endpoint)
    assert deploy_stack(aws, stack, "create") == "CREATE_COMPLETE"
    [model] = aws.client("sagemaker").list_models()["Models"]
    container = aws.client("sagemaker").describe_model(ModelName=model["ModelName"])["PrimaryContainer"]
    bucket_name, key = split(container["ModelDataUrl"])
    aws.client("s3").put_object(Bucket=bucket_name, Key=key, Body=tarball(onnx_model(2.0)))


class Endpoint:
    """The deployed endpoint."""

    def __init__(self, aws: EmbeddedAws, hosting: Hosting) -> None:
        self.aws, self.hosting = aws, hosting
        self.runtime = boto3.client(
            "sagemaker-runtime",
            endpoint_url=hosting.url,
            region_name=aws.region,
            aws_access_key_id=aws.door.key,
            aws_secret_access_key="any",
        )

    def ask(self, body: bytes = FLOATS) -> str:
        """Put a request into the queue; return the address of its answer."""
        self.aws.client("s3").put_object(Bucket=BUCKET, Key="requests/one", Body=body)
        reply = self.runtime.invoke_endpoint_async(
            EndpointName=NAME, InputLocation=f"s3://{BUCKET}/requests/one"
        )
        return str(reply["OutputLocation"])

    def answer(self, address: str) -> Any:
        """Wait for an answer."""
        bucket, key = split(address)
        client = self.aws.client("s3")
        until(lambda: "Contents" in client.list_objects_v2(Bucket=bucket, Prefix=key))
        return json.loads(client.get_object(Bucket=bucket, Key=key)["Body"].read())["outputs"][0]["data"]

    def serving(self, count: int) -> bool:
        """Return True if so many instances serve, by the description and by their servers."""
        [variant] = self.aws.client("sagemaker").describe_endpoint(EndpointName=NAME)["ProductionVariants"]
        return variant["CurrentInstanceCount"] == count == len(list(self.hosting.running()))

    def firing(self) -> set[str]:
        """Return the last parts of the names of the endpoint's alarms that are in ALARM."""
        found = self.aws.client("cloudwatch").describe_alarms(
            AlarmNamePrefix=f"{NAME}-", AlarmTypes=["MetricAlarm"], StateValue="ALARM"
        )
        return {each["AlarmName"].rpartition("-")[2] for each in found["MetricAlarms"]}

    def causes(self) -> list[str]:
        """Return the policies that scaled, the oldest first."""
        found = self.aws.client("application-autoscaling").describe_scaling_activities(
            ServiceNamespace="sagemaker"
        )
        return [each["Cause"].rpartition("-")[2] for each in found["ScalingActivities"]][::-1]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with EmbeddedAws(speed=SPEED) as aws, Hosting(aws, lookup_s=0.1) as hosting:
        deploy(aws)
        hosting.start(NAME)
        yield Endpoint(aws, hosting)


def test_a_queue_scales_to_zero_without_requests_and_comes_back_with_the_first_one(
    endpoint: Endpoint,
) -> None:
    assert endpoint.serving(1)
    until(lambda: endpoint.serving(0))

    address = endpoint.ask()

    assert endpoint.answer(address) == [2, 4, 6]
    assert endpoint.causes()[:2] == ["Backlog", "FromZero"]


def test_requests_that_keep_failing_page_someone(endpoint: Endpoint) -> None:
    def paged() -> bool:
        endpoint.ask(b"{}")
        return "Failures" in endpoint.firing()

    until(paged)
