"""First deployments: an empty prefix, an endpoint that does not start, and the remains of both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from aws_cdk import CfnOutput
from synthesised_stacks import repository_in, small_stack, template_of

from aws_for_tests.deployed_functions import begin, destroy, ended, outputs
from embedded_aws import EmbeddedAws
from triton_fleet import MultiModelEndpoint
from triton_models.repository.manifest import MANIFEST_NAME, Manifest

pytestmark = pytest.mark.story

LOGS = "/aws/sagemaker/Endpoints/search"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedAws]:
    """An AWS whose CreateModel refuses a prefix without an object, as AWS may."""
    with EmbeddedAws() as opened:
        from moto.sagemaker.exceptions import ValidationError
        from moto.sagemaker.models import SageMakerModelBackend

        create = SageMakerModelBackend.create_model

        def create_model(self: Any, **given: Any) -> Any:
            bucket, _, prefix = (
                given["primary_container"]["ModelDataUrl"].removeprefix("s3://").partition("/")
            )
            if not opened.client("s3").list_objects_v2(Bucket=bucket, Prefix=prefix)["KeyCount"]:
                raise ValidationError(f"Could not find model data at s3://{bucket}/{prefix}.")
            return create(self, **given)

        monkeypatch.setattr(SageMakerModelBackend, "create_model", create_model)
        yield opened


@cache
def synthesised(bucket: str = "", key: str = "") -> str:
    stack = small_stack()
    repository = repository_in(stack, bucket=bucket, key=key)
    MultiModelEndpoint(stack, "Endpoint", repository=repository, endpoint_name="search")
    CfnOutput(stack, "Bucket", value=repository.bucket.bucket_name)
    CfnOutput(stack, "Key", value=repository.key.key_arn)
    return template_of(stack)


def template(**kept: str) -> dict[str, Any]:
    return dict(json.loads(synthesised(**kept)))


def deploy(aws: EmbeddedAws, found: dict[str, Any]) -> str:
    """Deploy a template. Returns the stack's status and the reason."""
    return ended(aws, begin(aws, found.pop("Resources"), **found))


def retention(aws: EmbeddedAws) -> dict[str, int | None]:
    """Return the retention of the endpoint's log group in days, if it exists."""
    found = aws.client("logs").describe_log_groups(logGroupNamePrefix=LOGS)["logGroups"]
    return {group["logGroupName"]: group.get("retentionInDays") for group in found}


def keys(aws: EmbeddedAws) -> list[str]:
    """Return the states of the account's keys."""
    client = aws.client("kms")
    listed = [each["KeyId"] for each in client.list_keys()["Keys"]]
    return [client.describe_key(KeyId=each)["KeyMetadata"]["KeyState"] for each in listed]


def test_a_model_is_created_where_an_empty_prefix_is_refused(aws: EmbeddedAws) -> None:
    assert deploy(aws, template()) == "CREATE_COMPLETE"

    stored = aws.client("s3").get_object(Bucket=outputs(aws)["Bucket"], Key=f"models/{MANIFEST_NAME}")
    assert Manifest.from_json(stored["Body"].read()) == Manifest()


def test_an_endpoint_that_does_not_start_leaves_its_logs_and_nothing_else(aws: EmbeddedAws) -> None:
    found = template()
    [config] = [
        each for each in found["Resources"].values() if each["Type"] == "AWS::SageMaker::EndpointConfig"
    ]
    config["Properties"]["ProductionVariants"][0]["InstanceType"] = "ml.g99.xlarge"

    assert deploy(aws, found).startswith("ROLLBACK_COMPLETE")
    assert retention(aws) == {LOGS: 30}
    assert aws.client("s3").list_buckets()["Buckets"] == []
    assert keys(aws) == ["PendingDeletion"]

    aws.client("cloudformation").delete_stack(StackName="s")
    assert deploy(aws, template()) == "CREATE_COMPLETE"
    assert retention(aws) == {LOGS: 30}


def test_what_was_published_survives_a_second_life_of_the_stack(aws: EmbeddedAws) -> None:
    assert deploy(aws, template()) == "CREATE_COMPLETE"
    bucket, key = outputs(aws)["Bucket"], outputs(aws)["Key"]
    storage = aws.client("s3")
    storage.put_object(Bucket=bucket, Key=f"models/{MANIFEST_NAME}", Body=b"published")
    assert destroy(aws) == "DELETE_COMPLETE"

    assert deploy(aws, template(bucket=bucket, key=key)) == "CREATE_COMPLETE"

    stored = storage.get_object(Bucket=bucket, Key=f"models/{MANIFEST_NAME}")["Body"].read()
    assert (stored, retention(aws)) == (b"published", {LOGS: 30})


def test_a_bucket_of_another_region_is_named_with_both_regions(aws: EmbeddedAws) -> None:
    elsewhere = {"LocationConstraint": "eu-west-1"}
    aws.client("s3").create_bucket(Bucket="far-models", CreateBucketConfiguration=elsewhere)  # type: ignore[arg-type]
    key = aws.client("kms").create_key()["KeyMetadata"]["Arn"]

    reason = deploy(aws, template(bucket="far-models", key=key))

    assert reason.startswith("ROLLBACK_COMPLETE")
    assert "The bucket far-models is in eu-west-1: SageMaker reads models in us-east-1" in reason
