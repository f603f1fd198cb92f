"""Options of variants, and those that few endpoints need: core dumps, finer metrics."""

from __future__ import annotations

import json
from typing import Any

from aws_cdk import Duration, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from declared import with_values
from synthesised import Resources, statements, the_variant

from tests.reported import reported
from triton_fleet import (
    AsyncInference,
    CoreDumps,
    EndpointNetwork,
    ModelRepository,
    MultiModelEndpoint,
    Placement,
    S3Folder,
    SingleModelEndpoint,
    Variant,
)

ARTIFACT = "a-0123.tar.gz"


def _multi(stack: Stack, **arguments: Any) -> MultiModelEndpoint:
    return MultiModelEndpoint(
        stack,
        "Endpoint",
        repository=ModelRepository(stack, "Repository"),
        endpoint_name="rare",
        **with_values(arguments),
    )


def _admitted(resources: Resources) -> list[dict[str, Any]]:
    """Return the statements of the VPC endpoint for S3."""
    (gateway,) = (
        each for each in resources("AWS::EC2::VPCEndpoint") if each.get("VpcEndpointType") == "Gateway"
    )
    return list(gateway["PolicyDocument"]["Statement"])


def test_core_dumps_are_written_to_their_folder_with_their_key(stack: Stack, resources: Resources) -> None:
    bucket, key = s3.Bucket(stack, "Dumps"), kms.Key(stack, "Key")
    folder = S3Folder(bucket=bucket, prefix="/dumps/")
    _multi(stack, core_dumps=CoreDumps(folder=folder, encryption_key=key))
    dumps, role = the_variant(resources)["CoreDumpConfig"], statements(stack)

    assert dumps["DestinationS3Uri"]["Fn::Join"][1][-1] == "/dumps/"
    assert dumps["KmsKeyId"] == stack.resolve(key.key_arn)
    (written,) = (each for each in role if "s3:PutObject" in each["Action"])
    assert written["Resource"]["Fn::Join"][1][-1] == "/dumps/*"
    assert any("kms:Encrypt" in each["Action"] for each in role)


def test_a_crash_in_a_vpc_can_write_its_dump_through_the_narrow_s3_endpoint(
    stack: Stack, resources: Resources
) -> None:
    vpc = ec2.Vpc(stack, "Vpc", availability_zones=["eu-west-1a", "eu-west-1b"], nat_gateways=0)
    bucket = s3.Bucket(stack, "Dumps")
    network = EndpointNetwork(stack, "Network", vpc=vpc)
    _multi(stack, network=network, core_dumps=CoreDumps(folder=S3Folder(bucket=bucket)))
    admitted = _admitted(resources)
    (written,) = (each for each in admitted if "s3:PutObject" in each["Action"])
    assert written["Resource"]["Fn::Join"][1][-1] == "/*"


def test_a_queue_in_a_vpc_can_be_read_and_answered(stack: Stack, resources: Resources) -> None:
    vpc = ec2.Vpc(stack, "Vpc", availability_zones=["eu-west-1a", "eu-west-1b"], nat_gateways=0)
    network = EndpointNetwork(stack, "Network", vpc=vpc)
    bucket = s3.Bucket(stack, "Queue")
    SingleModelEndpoint(
        stack,
        "Endpoint",
        repository=ModelRepository(stack, "Repository"),
        variants=[Variant(artifact=ARTIFACT)],
        artifact_timeout=None,
        placement=Placement(network=network),
        async_inference=AsyncInference(
            requests=S3Folder(bucket=bucket, prefix="in"), output=S3Folder(bucket=bucket, prefix="out")
        ),
    )
    text = json.dumps(_admitted(resources))

    assert "/in/*" in text
    assert "/out/*" in text


def test_metrics_every_ten_seconds(stack: Stack, resources: Resources) -> None:
    _multi(stack, metric_interval=Duration.seconds(10))
    (config,) = resources("AWS::SageMaker::EndpointConfig")

    assert config["MetricsConfig"] == {
        "EnableDetailedObservability": False,
        "MetricPublishFrequencyInSeconds": 10,
    }


def test_an_interval_that_alarms_could_not_follow_is_reported(stack: Stack) -> None:
    with reported("metric-interval"):
        _multi(stack, metric_interval=Duration.millis(500))
