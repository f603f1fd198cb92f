"""Options that few endpoints need: reservations, core dumps, finer metrics, suspended scaling."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk import Duration, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template
from botocore_model import violations
from cfnlint.api import ManualArgs, lint
from synthesised import Resources

from tests.reported import reported
from triton_fleet import (
    AsyncInference,
    CapacityReservation,
    CoreDumps,
    EndpointNetwork,
    EndpointScaling,
    ModelRepository,
    MultiModelEndpoint,
    S3Folder,
    SingleModelEndpoint,
    SuspendedScaling,
    Variant,
)

RESERVATION = "arn:aws:sagemaker:eu-west-1:123456789012:training-plan/reserved"


def _multi(stack: Stack, **arguments: Any) -> MultiModelEndpoint:
    return MultiModelEndpoint(
        stack, "Endpoint", repository=ModelRepository(stack, "Repository"), endpoint_name="rare", **arguments
    )


def _variant(resources: Resources) -> dict[str, Any]:
    (config,) = resources("AWS::SageMaker::EndpointConfig")
    return dict(config["ProductionVariants"][0])


def _statements(template: dict[str, Any], name: str) -> list[dict[str, Any]]:
    (policy,) = (
        each["Properties"]["PolicyDocument"]["Statement"]
        for logical_id, each in template["Resources"].items()
        if each["Type"] in {"AWS::IAM::Policy", "AWS::EC2::VPCEndpoint"} and logical_id.startswith(name)
    )
    return list(policy)


def test_instances_are_taken_from_the_reservation_and_from_nothing_else(
    stack: Stack, resources: Resources
) -> None:
    _multi(stack, capacity_reservation=CapacityReservation(arn=RESERVATION))

    assert _variant(resources)["CapacityReservationConfig"] == {
        "CapacityReservationPreference": "capacity-reservations-only",
        "MlReservationArn": RESERVATION,
    }


def test_core_dumps_are_written_to_their_folder_with_their_key(stack: Stack) -> None:
    bucket, key = s3.Bucket(stack, "Dumps"), kms.Key(stack, "Key")
    folder = S3Folder(bucket=bucket, prefix="/dumps/")
    _multi(stack, core_dumps=CoreDumps(folder=folder, encryption_key=key))
    template = Template.from_stack(stack).to_json()
    (config,) = (
        each["Properties"]
        for each in template["Resources"].values()
        if each["Type"] == "AWS::SageMaker::EndpointConfig"
    )
    dumps = config["ProductionVariants"][0]["CoreDumpConfig"]
    role = _statements(template, "EndpointRole")

    assert dumps["DestinationS3Uri"]["Fn::Join"][1][-1] == "/dumps/"
    assert dumps["KmsKeyId"] == stack.resolve(key.key_arn)
    (written,) = (each for each in role if "s3:PutObject" in each["Action"])
    assert written["Resource"]["Fn::Join"][1][-1] == "/dumps/*"
    assert any("kms:Encrypt" in each["Action"] for each in role)


def test_a_crash_in_a_vpc_can_write_its_dump_through_the_narrow_s3_endpoint(stack: Stack) -> None:
    vpc = ec2.Vpc(stack, "Vpc", availability_zones=["eu-west-1a", "eu-west-1b"], nat_gateways=0)
    bucket = s3.Bucket(stack, "Dumps")
    network = EndpointNetwork(stack, "Network", vpc=vpc)
    _multi(stack, network=network, core_dumps=CoreDumps(folder=S3Folder(bucket=bucket)))
    assert network.s3_endpoint is not None
    name = stack.get_logical_id(network.s3_endpoint.node.default_child)  # type: ignore[arg-type]

    admitted = _statements(Template.from_stack(stack).to_json(), name)
    (written,) = (each for each in admitted if "s3:PutObject" in each["Action"])
    assert written["Resource"]["Fn::Join"][1][-1] == "/*"


def test_a_queue_in_a_vpc_can_be_read_and_answered(stack: Stack) -> None:
    vpc = ec2.Vpc(stack, "Vpc", availability_zones=["eu-west-1a", "eu-west-1b"], nat_gateways=0)
    network = EndpointNetwork(stack, "Network", vpc=vpc)
    bucket = s3.Bucket(stack, "Queue")
    SingleModelEndpoint(
        stack,
        "Endpoint",
        repository=ModelRepository(stack, "Repository"),
        variants=[Variant(artifact="a-0123.tar.gz")],
        artifact_timeout=None,
        network=network,
        async_inference=AsyncInference(
            requests=S3Folder(bucket=bucket, prefix="in"), output=S3Folder(bucket=bucket, prefix="out")
        ),
    )
    assert network.s3_endpoint is not None
    name = stack.get_logical_id(network.s3_endpoint.node.default_child)  # type: ignore[arg-type]
    text = json.dumps(_statements(Template.from_stack(stack).to_json(), name))

    assert "/in/*" in text
    assert "/out/*" in text


def test_metrics_of_each_instance_every_ten_seconds(stack: Stack, resources: Resources) -> None:
    _multi(stack, enhanced_metrics=True, metric_interval=Duration.seconds(10))
    (config,) = resources("AWS::SageMaker::EndpointConfig")

    assert config["MetricsConfig"] == {
        "EnableDetailedObservability": False,
        "EnableEnhancedMetrics": True,
        "MetricPublishFrequencyInSeconds": 10,
    }


@pytest.mark.parametrize("interval", [Duration.seconds(20), Duration.minutes(5), Duration.millis(500)])
def test_an_interval_that_alarms_could_not_follow_is_reported(stack: Stack, interval: Duration) -> None:
    with reported("metric-interval"):
        _multi(stack, metric_interval=interval)


def test_scaling_can_be_halted_without_forgetting_how_it_is_set_up(
    stack: Stack, resources: Resources
) -> None:
    EndpointScaling(stack, "Scaling", endpoint=_multi(stack), suspended=SuspendedScaling(scale_in=True))
    (target,) = resources("AWS::ApplicationAutoScaling::ScalableTarget")

    assert target["SuspendedState"] == {
        "DynamicScalingInSuspended": True,
        "DynamicScalingOutSuspended": False,
        "ScheduledScalingSuspended": False,
    }
    assert len(resources("AWS::ApplicationAutoScaling::ScalingPolicy")) == 2


def test_all_of_them_together_are_what_the_services_accept(stack: Stack) -> None:
    folder = S3Folder(bucket=s3.Bucket(stack, "Bucket", encryption_key=kms.Key(stack, "Key")))
    endpoint = _multi(
        stack,
        capacity_reservation=CapacityReservation(arn=RESERVATION),
        core_dumps=CoreDumps(folder=folder, encryption_key=kms.Key(stack, "Other")),
        enhanced_metrics=True,
        metric_interval=Duration.seconds(30),
    )
    EndpointScaling(stack, "Scaling", endpoint=endpoint, suspended=SuspendedScaling(schedules=True))
    template = Template.from_stack(stack).to_json()

    assert violations(template) == []
    assert not lint(json.dumps(template), config=ManualArgs(regions=["eu-west-1", "us-east-1"]))


def test_a_reservation_without_an_arn_is_refused(stack: Stack) -> None:
    reservation = CapacityReservation(arn="reserved")

    with reported("reservation-arn"):
        _multi(stack, capacity_reservation=reservation)
