from __future__ import annotations

import json
import re
from typing import Any

import pytest
from aws_cdk import Duration, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Template
from aws_cdk.aws_applicationautoscaling import Schedule
from synthesised import Resources, refusals, statements

from tests.reported import reported
from triton_fleet import (
    AsyncInference,
    BacklogPerInstance,
    ConcurrentRequests,
    DataCapture,
    EndpointAlarms,
    EndpointDashboard,
    EndpointNetwork,
    EndpointScaling,
    InvocationsPerGpu,
    ModelRepository,
    Placement,
    S3Folder,
    ScheduledCapacity,
    SingleModelEndpoint,
    Thresholds,
    Variant,
)

VARIANT = Variant(artifact="whisper-0123456789ab.tar.gz")


@pytest.fixture
def bucket(stack: Stack) -> s3.Bucket:
    return s3.Bucket(stack, "Bucket")


@pytest.fixture
def queue(bucket: s3.Bucket) -> AsyncInference:
    """Only what it takes."""
    return AsyncInference(
        requests=S3Folder(bucket=bucket, prefix="requests"), output=S3Folder(bucket=bucket, prefix="answers/")
    )


@pytest.fixture
def endpoint(stack: Stack, repository: ModelRepository, queue: AsyncInference) -> SingleModelEndpoint:
    return _endpoint(stack, repository, async_inference=queue)


def _endpoint(
    stack: Stack, repository: ModelRepository, *variants: Variant, **arguments: Any
) -> SingleModelEndpoint:
    return SingleModelEndpoint(
        stack,
        "Endpoint",
        repository=repository,
        variants=variants or [VARIANT],
        endpoint_name="whisper",
        artifact_timeout=None,
        **arguments,
    )


def _config(resources: Resources) -> dict[str, Any]:
    (config,) = resources("AWS::SageMaker::EndpointConfig")
    return dict(config["AsyncInferenceConfig"])


def _statements(stack: Stack, role: str) -> dict[str, Any]:
    return {json.dumps(each["Action"]): each["Resource"] for each in statements(stack, role)}


def test_answers_go_to_the_folder_and_nothing_else_is_said(
    stack: Stack, endpoint: SingleModelEndpoint, resources: Resources
) -> None:
    path = _config(resources)["OutputConfig"].pop("S3OutputPath")

    assert path["Fn::Join"][1][-1] == "/answers/"
    assert set(_config(resources)) == {"OutputConfig"}
    assert set(_config(resources)["OutputConfig"]) == {"S3OutputPath"}


def test_every_option_together_is_what_the_services_accept(stack: Stack, bucket: s3.Bucket) -> None:
    folder = S3Folder(bucket=bucket)
    key = kms.Key(stack, "Key")
    everything = AsyncInference(
        requests=folder,
        output=folder,
        failure=S3Folder(bucket=bucket, prefix="failures"),
        success_topic=sns.Topic(stack, "Done", master_key=key),
        error_topic=sns.Topic(stack, "Failed"),
        include_inference_in=["success", "error"],
        max_concurrent_invocations=8,
        encryption_key=key,
    )
    endpoint = _endpoint(stack, ModelRepository(stack, "Repository"), async_inference=everything)
    EndpointScaling(stack, "Scaling", endpoint=endpoint, min_capacity=0)

    assert refusals(stack) == []


def test_the_role_reads_requests_and_writes_answers_and_nothing_beside_them(
    stack: Stack, endpoint: SingleModelEndpoint
) -> None:
    bucket = stack.get_logical_id(stack.node.find_child("Bucket").node.default_child)  # type: ignore[arg-type]
    about_it = [
        (each["Action"], str(each["Resource"]).rpartition("/")[0].rpartition("/")[2])
        for each in statements(stack)
        if bucket in json.dumps(each["Resource"])
    ]

    assert about_it == [
        ("s3:GetObject", "requests"),
        ("s3:ListBucket", ""),
        (["s3:PutObject", "s3:AbortMultipartUpload"], "answers"),
    ]


def test_who_may_invoke_may_put_requests_and_read_answers(
    stack: Stack, endpoint: SingleModelEndpoint
) -> None:
    endpoint.grant_invoke(iam.Role(stack, "Caller", assumed_by=iam.AccountRootPrincipal()))
    statements = _statements(stack, "Caller")

    assert statements['"sagemaker:InvokeEndpointAsync"'] == stack.resolve(endpoint.endpoint_arn)
    assert statements['["s3:PutObject", "s3:AbortMultipartUpload"]']["Fn::Join"][1][-1] == "/requests/*"
    assert statements['"s3:GetObject"']["Fn::Join"][1][-1] == "/answers/*"
    assert '"sagemaker:InvokeEndpoint"' not in statements


def test_topics_are_reported_and_may_hold_the_answer(
    stack: Stack, repository: ModelRepository, bucket: s3.Bucket, resources: Resources
) -> None:
    folder = S3Folder(bucket=bucket)
    included = AsyncInference(
        requests=folder,
        output=folder,
        success_topic=sns.Topic(stack, "Done"),
        include_inference_in=["success"],
    )
    _endpoint(stack, repository, async_inference=included)
    notification = _config(resources)["OutputConfig"]["NotificationConfig"]

    assert notification["IncludeInferenceResponseIn"] == ["SUCCESS_NOTIFICATION_TOPIC"]
    assert set(notification) == {"SuccessTopic", "IncludeInferenceResponseIn"}
    assert _statements(stack, "EndpointRole")['"sns:Publish"'] == notification["SuccessTopic"]


def test_an_answer_cannot_be_in_a_notification_that_nobody_gets(
    stack: Stack, repository: ModelRepository, bucket: s3.Bucket
) -> None:
    folder = S3Folder(bucket=bucket)
    without_topics = AsyncInference(requests=folder, output=folder, include_inference_in=["error", "error"])

    with reported("async-topics", "async-topics"):
        _endpoint(stack, repository, async_inference=without_topics)


def test_what_an_asynchronous_endpoint_cannot_do_is_reported_at_once(
    stack: Stack, repository: ModelRepository, queue: AsyncInference, bucket: s3.Bucket
) -> None:
    two = (Variant(artifact="a.tar.gz", name="A"), Variant(artifact="b.tar.gz", name="B"))

    with reported("async-excludes", "async-excludes"):
        _endpoint(stack, repository, *two, async_inference=queue, data_capture=DataCapture(bucket=bucket))


def _policies(resources: Resources) -> dict[str, dict[str, Any]]:
    found = resources("AWS::ApplicationAutoScaling::ScalingPolicy")
    return {each["PolicyName"].rpartition("-")[2]: each for each in found}


def test_it_scales_by_its_backlog_under_the_endpoints_name_alone(
    stack: Stack, endpoint: SingleModelEndpoint, resources: Resources
) -> None:
    EndpointScaling(stack, "Scaling", endpoint=endpoint)

    (policy,) = _policies(resources).values()
    tracking = policy["TargetTrackingScalingPolicyConfiguration"]
    assert tracking["TargetValue"] == 5
    assert tracking["CustomizedMetricSpecification"] == {
        "MetricName": "ApproximateBacklogSizePerInstance",
        "Namespace": "AWS/SageMaker",
        "Statistic": "Average",
        "Dimensions": [{"Name": "EndpointName", "Value": "whisper"}],
    }


def test_from_no_instance_at_all_the_first_request_brings_one_back(
    stack: Stack, endpoint: SingleModelEndpoint, resources: Resources
) -> None:
    EndpointScaling(stack, "Scaling", endpoint=endpoint, min_capacity=0)

    (target,) = resources("AWS::ApplicationAutoScaling::ScalableTarget")
    (alarm,) = resources("AWS::CloudWatch::Alarm")
    policy = _policies(resources)["FromZero"]
    assert target["MinCapacity"] == 0
    # As on https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html, read 2026-11-21.
    # The cooldown is the time that an instance takes to serve: AWS's 300 s would ask for two more meanwhile.
    assert policy["StepScalingPolicyConfiguration"] == {
        "AdjustmentType": "ChangeInCapacity",
        "Cooldown": 900,
        "MetricAggregationType": "Average",
        "StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}],
    }
    assert {
        key: alarm[key] for key in alarm if key not in {"AlarmName", "AlarmDescription", "AlarmActions"}
    } == {
        "MetricName": "HasBacklogWithoutCapacity",
        "Namespace": "AWS/SageMaker",
        "Statistic": "Average",
        "Dimensions": [{"Name": "EndpointName", "Value": "whisper"}],
        "ComparisonOperator": "GreaterThanOrEqualToThreshold",
        "Threshold": 1,
        "EvaluationPeriods": 2,
        "Period": 60,
        "TreatMissingData": "missing",
    }


def test_a_schedule_may_send_every_instance_home(
    stack: Stack, endpoint: SingleModelEndpoint, resources: Resources
) -> None:
    night = ScheduledCapacity(name="Night", schedule=Schedule.cron(hour="20", minute="0"), min_capacity=0)
    EndpointScaling(stack, "Scaling", endpoint=endpoint, schedules=[night])

    assert set(_policies(resources)) == {"Backlog", "FromZero"}


@pytest.mark.parametrize("target", [InvocationsPerGpu(), ConcurrentRequests(per_model=4)])
def test_a_target_that_counts_requests_sees_none_on_an_asynchronous_endpoint(
    target: Any, stack: Stack, endpoint: SingleModelEndpoint
) -> None:
    with reported("scaling-target-published"):
        EndpointScaling(stack, "S", endpoint=endpoint, targets=[target])


def test_a_backlog_needs_a_queue(stack: Stack, repository: ModelRepository) -> None:
    endpoint = _endpoint(stack, repository)

    with reported("scaling-target-published"):
        EndpointScaling(stack, "S", endpoint=endpoint, targets=[BacklogPerInstance()])


# From https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-monitor.html, read on 2026-11-21.
PUBLISHED = {
    "Invocation4XXErrors",
    "Invocation5XXErrors",
    "ModelLatency",
    "ApproximateBacklogSize",
    "ApproximateBacklogSizePerInstance",
    "ApproximateAgeOfOldestRequest",
    "HasBacklogWithoutCapacity",
    "InvocationFailures",
}
HOSTS = {"CPUUtilization", "MemoryUtilization", "DiskUtilization", "GPUUtilization", "GPUMemoryUtilization"}


def _watched(template: dict[str, Any]) -> set[str]:
    """The names of all metrics of SageMaker's in alarms and dashboards."""
    resources = [
        each for each in template["Resources"].values() if each["Type"].startswith("AWS::CloudWatch::")
    ]
    text = json.dumps(resources).replace("\\", "")
    dashboards = re.findall(r'\["(?:AWS/SageMaker|/aws/sagemaker/Endpoints)","(\w+)"', text)
    return {*re.findall(r'"MetricName": "(\w+)"', text), *dashboards}


def test_alarms_and_dashboard_watch_only_what_is_published(
    stack: Stack, endpoint: SingleModelEndpoint
) -> None:
    scaling = EndpointScaling(stack, "Scaling", endpoint=endpoint, min_capacity=0)
    alarms = EndpointAlarms(stack, "Alarms", endpoint=endpoint, scaling=scaling)
    EndpointDashboard(stack, "Dashboard", endpoint=endpoint, alarms=alarms, scaling=scaling)

    watched = _watched(Template.from_stack(stack).to_json())
    assert {"ApproximateAgeOfOldestRequest", "ApproximateBacklogSizePerInstance", "ModelLatency"} <= watched
    assert watched <= PUBLISHED | HOSTS


def test_who_waits_too_long_or_fails_is_reported_of(
    stack: Stack, endpoint: SingleModelEndpoint, resources: Resources
) -> None:
    alarms = EndpointAlarms(
        stack, "Alarms", endpoint=endpoint, thresholds=Thresholds(oldest_request=Duration.minutes(1))
    )
    (waiting,) = (
        each for each in resources("AWS::CloudWatch::Alarm") if each["AlarmName"] == "whisper-page-Waiting"
    )

    assert set(alarms.alarms) == {"Waiting", "Failures", "NoInstance", "GpuMemory"}
    [watched] = waiting["Metrics"]
    assert (waiting["Threshold"], watched["MetricStat"]["Stat"]) == (60, "Maximum")
    assert watched["MetricStat"]["Metric"]["Dimensions"] == [{"Name": "EndpointName", "Value": "whisper"}]


def test_a_queue_in_a_vpc_can_be_read_and_answered(
    stack: Stack, repository: ModelRepository, queue: AsyncInference, resources: Resources
) -> None:
    vpc = ec2.Vpc(stack, "Vpc", availability_zones=["eu-west-1a", "eu-west-1b"], nat_gateways=0)
    placement = Placement(network=EndpointNetwork(stack, "Network", vpc=vpc))
    _endpoint(stack, repository, async_inference=queue, placement=placement)
    (gateway,) = (each for each in resources("AWS::EC2::VPCEndpoint") if "PolicyDocument" in each)
    text = json.dumps(gateway)

    assert "/requests/*" in text
    assert "/answers/*" in text
