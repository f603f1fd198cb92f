"""Services of the embedded AWS for which moto alone differs from AWS."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from embedded_aws import EmbeddedAws

ROLE = "arn:aws:iam::123456789012:role/any"
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.6.0-gpu-py312"


def variant(**changes: Any) -> dict[str, Any]:
    return {
        "VariantName": "AllTraffic",
        "ModelName": "m",
        "InitialInstanceCount": 2,
        "InstanceType": "ml.g5.2xlarge",
        **changes,
    }


@pytest.fixture
def sagemaker(aws: EmbeddedAws) -> Any:
    client = aws.client("sagemaker")
    client.create_model(ModelName="m", ExecutionRoleArn=ROLE, PrimaryContainer={"Image": IMAGE})
    client.create_endpoint_config(EndpointConfigName="c1", ProductionVariants=[variant()])
    client.create_endpoint_config(
        EndpointConfigName="c2",
        ProductionVariants=[variant(InitialInstanceCount=1, InitialVariantWeight=0.5)],
    )
    client.create_endpoint(EndpointName="e", EndpointConfigName="c1")
    return client


def test_the_arn_that_describe_endpoint_gives_finds_an_endpoints_tags(sagemaker: Any) -> None:
    sagemaker.create_endpoint(
        EndpointName="Search-Endpoint", EndpointConfigName="c1", Tags=[{"Key": "team", "Value": "a"}]
    )
    arn = sagemaker.describe_endpoint(EndpointName="Search-Endpoint")["EndpointArn"]

    sagemaker.add_tags(
        ResourceArn=arn, Tags=[{"Key": "team", "Value": "b"}, {"Key": "stage", "Value": "live"}]
    )
    sagemaker.delete_tags(ResourceArn=arn, TagKeys=["stage"])

    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "team", "Value": "b"}]


def test_models_are_listed_as_asked_and_page_by_page(sagemaker: Any) -> None:
    for name in ("a-1", "a-2", "b-1"):
        sagemaker.create_model(ModelName=name, ExecutionRoleArn=ROLE, PrimaryContainer={"Image": IMAGE})

    first = sagemaker.list_models(NameContains="-", SortBy="Name", SortOrder="Ascending", MaxResults=2)
    rest = sagemaker.list_models(
        NameContains="-", SortBy="Name", SortOrder="Ascending", MaxResults=2, NextToken=first["NextToken"]
    )
    [made] = {each["CreationTime"] for each in rest["Models"]}

    assert [[each["ModelName"] for each in page["Models"]] for page in (first, rest)] == [
        ["a-1", "a-2"],
        ["b-1"],
    ]
    assert sagemaker.list_models(CreationTimeAfter=made + timedelta(days=1))["Models"] == []


def test_a_described_configuration_has_everything_that_it_was_created_with(sagemaker: Any) -> None:
    given = {
        "ProductionVariants": [
            variant(
                InferenceAmiVersion="al2023-ami-sagemaker-inference-gpu-4-1",
                ContainerStartupHealthCheckTimeoutInSeconds=600,
                RoutingConfig={"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
            )
        ],
        "MetricsConfig": {"EnableEnhancedMetrics": True, "MetricPublishFrequencyInSeconds": 60},
        "ExecutionRoleArn": ROLE,
    }
    sagemaker.create_endpoint_config(EndpointConfigName="full", **given)

    described = sagemaker.describe_endpoint_config(EndpointConfigName="full")
    assert {key: described[key] for key in given} == given


def test_an_updated_endpoint_keeps_its_live_count_but_not_what_is_excluded(sagemaker: Any) -> None:
    sagemaker.update_endpoint_weights_and_capacities(
        EndpointName="e",
        DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 3}],
    )
    sagemaker.get_waiter("endpoint_in_service").wait(EndpointName="e", WaiterConfig={"Delay": 0.05})
    sagemaker.update_endpoint(
        EndpointName="e",
        EndpointConfigName="c2",
        RetainAllVariantProperties=True,
        ExcludeRetainedVariantProperties=[{"VariantPropertyType": "DesiredWeight"}],
    )

    live = sagemaker.describe_endpoint(EndpointName="e")["ProductionVariants"][0]
    assert live["DesiredInstanceCount"] == 3
    assert live["DesiredWeight"] == 0.5


def test_an_asynchronous_endpoint_stays_one(sagemaker: Any) -> None:
    queue = {"OutputConfig": {"S3OutputPath": "s3://b/answers/"}}
    sagemaker.create_endpoint_config(
        EndpointConfigName="queued", ProductionVariants=[variant()], AsyncInferenceConfig=queue
    )
    sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="queued")

    with pytest.raises(ClientError, match="AsyncInferenceConfig parameter cannot be removed"):
        sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="c1")


def test_an_endpoint_keeps_its_deployment_settings_when_told_to(sagemaker: Any) -> None:
    rolling = {"MaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 50}, "WaitIntervalInSeconds": 60}
    sagemaker.update_endpoint(
        EndpointName="e", EndpointConfigName="c2", DeploymentConfig={"RollingUpdatePolicy": rolling}
    )
    sagemaker.get_waiter("endpoint_in_service").wait(EndpointName="e", WaiterConfig={"Delay": 0.05})
    sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="c1", RetainDeploymentConfig=True)

    kept = sagemaker.describe_endpoint(EndpointName="e")["LastDeploymentConfig"]
    assert kept["RollingUpdatePolicy"] == rolling


@pytest.mark.parametrize(
    ("call", "message", "given"),
    [
        ("update_endpoint", "Could not find endpoint", {"EndpointName": "no", "EndpointConfigName": "c1"}),
        (
            *("update_endpoint", r'ValidationException.*currently in use endpoint configuration "c1"'),
            {"EndpointName": "e", "EndpointConfigName": "c1"},
        ),
        ("create_endpoint", "already existing endpoint", {"EndpointName": "e", "EndpointConfigName": "c1"}),
        ("create_endpoint", "at 'endpointName' failed", {"EndpointName": "a_b", "EndpointConfigName": "c1"}),
        (
            *("create_endpoint_config", r"'ml\.g99\.xlarge'.*failed to satisfy constraint"),
            {"EndpointConfigName": "c", "ProductionVariants": [variant(InstanceType="ml.g99.xlarge")]},
        ),
        (
            *("create_endpoint_config", "'productionVariants.1.member.inferenceAmiVersion' failed"),
            {"EndpointConfigName": "c", "ProductionVariants": [variant(InferenceAmiVersion="zz")]},
        ),
    ],
)
def test_what_sagemaker_refuses_is_refused(
    sagemaker: Any, call: str, message: str, given: dict[str, Any]
) -> None:
    with pytest.raises(ClientError, match=message):
        getattr(sagemaker, call)(**given)


def register(aws: EmbeddedAws, endpoint: str, **given: Any) -> None:
    aws.client("application-autoscaling").register_scalable_target(
        ServiceNamespace="sagemaker",
        ScalableDimension="sagemaker:variant:DesiredInstanceCount",
        ResourceId=f"endpoint/{endpoint}/variant/AllTraffic",
        **(given or {"MinCapacity": 1, "MaxCapacity": 4}),
    )


def test_a_scalable_target_needs_its_endpoint_and_by_default_uses_the_service_linked_role(
    aws: EmbeddedAws, sagemaker: Any
) -> None:
    with pytest.raises(ClientError, match="No endpoint found"):
        register(aws, "another")
    register(aws, "e")

    described = aws.client("application-autoscaling").describe_scalable_targets(ServiceNamespace="sagemaker")
    role = described["ScalableTargets"][0]["RoleARN"]
    assert role.endswith("/AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint")


@pytest.mark.parametrize(
    "bounds",
    [{"MinCapacity": 9, "MaxCapacity": 4}, {"MinCapacity": -1, "MaxCapacity": 4}, {"MaxCapacity": 4}],
)
def test_a_new_scalable_target_has_a_minimum_that_its_maximum_allows(
    aws: EmbeddedAws, sagemaker: Any, bounds: dict[str, int]
) -> None:
    scaling = aws.client("application-autoscaling")

    with pytest.raises(ClientError, match="ValidationException"):
        register(aws, "e", **bounds)

    assert scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"] == []


@pytest.fixture
def codebuild(aws: EmbeddedAws) -> Any:
    client = aws.client("codebuild")
    client.create_project(
        name="builds",
        source={"type": "S3", "location": "bucket/source.zip", "buildspec": "version: 0.2"},
        artifacts={"type": "NO_ARTIFACTS"},
        environment={
            "type": "LINUX_GPU_CONTAINER",
            "image": IMAGE,
            "computeType": "BUILD_GENERAL1_SMALL",
            "environmentVariables": [{"name": "GPU", "value": "A10G"}, {"name": "KEPT", "value": "1"}],
        },
        serviceRole=ROLE,
        concurrentBuildLimit=2,
    )
    return client


def deny(condition: dict[str, Any]) -> str:
    statement = {
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Action": "s3:*",
        "Resource": ["arn:aws:s3:::guarded", "arn:aws:s3:::guarded/*"],
        **({"Condition": condition} if condition else {}),
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def test_a_bucket_that_refuses_plain_http_takes_objects_and_one_that_refuses_everything_none(
    aws: EmbeddedAws,
) -> None:
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="guarded")
    s3.put_bucket_policy(Bucket="guarded", Policy=deny({"Bool": {"aws:SecureTransport": "false"}}))

    s3.put_object(Bucket="guarded", Key="k", Body=b"1")

    assert s3.get_object(Bucket="guarded", Key="k")["Body"].read() == b"1"
    s3.put_bucket_policy(Bucket="guarded", Policy=deny({}))
    with pytest.raises(ClientError, match=r"403|AccessDenied"):
        s3.put_object(Bucket="guarded", Key="k", Body=b"1")


def started(codebuild: Any, count: int) -> list[str]:
    return [codebuild.start_build(projectName="builds")["build"]["id"] for _ in range(count)]


def test_more_than_a_hundred_builds_have_pages(codebuild: Any) -> None:
    ids = started(codebuild, 101)

    pages = [
        page["ids"]
        for page in codebuild.get_paginator("list_builds_for_project").paginate(projectName="builds")
    ]

    assert [len(page) for page in pages] == [100, 1]
    assert [build for page in pages for build in page] == ids[::-1]
    ascending = codebuild.list_builds_for_project(projectName="builds", sortOrder="ASCENDING")["ids"]
    assert ascending == ids[:100]


def test_the_quotas_of_an_account_have_pages_and_a_token_of_none_is_refused(aws: EmbeddedAws) -> None:
    quotas = aws.client("service-quotas")

    pages = list(quotas.get_paginator("list_service_quotas").paginate(ServiceCode="sagemaker"))
    listed = [quota for page in pages for quota in page["Quotas"]]
    endpoint = next(q for q in listed if q["QuotaName"] == "ml.g5.xlarge for endpoint usage")
    got = quotas.get_service_quota(ServiceCode="sagemaker", QuotaCode=endpoint["QuotaCode"])["Quota"]

    assert len(pages) > 1
    assert len({quota["QuotaCode"] for quota in listed}) == len(listed)
    assert got == endpoint
    assert (endpoint["Adjustable"], endpoint["ServiceName"]) == (True, "Amazon SageMaker")
    with pytest.raises(ClientError, match="InvalidPaginationTokenException"):
        quotas.list_service_quotas(ServiceCode="sagemaker", NextToken="elsewhere")
