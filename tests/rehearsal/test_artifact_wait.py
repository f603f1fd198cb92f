"""A single-model endpoint is deployed before its artifact is published: the deployment waits for it."""

from __future__ import annotations

import json

import pytest
from synthesised_stacks import small_stack, template_of

from aws_for_tests.deployed_functions import begin, destroy, ended, logged, physical_ids, until
from embedded_aws import EmbeddedAws
from tests.rehearsal.deployed_endpoints import described, served
from triton_fleet import ModelRepository, SingleModelEndpoint, Variant

pytestmark = pytest.mark.story

ARTIFACT = "resnet50-0123456789ab.tar.gz"
# The function asks S3 every ten seconds. Only this is changed for the tests.
OFTEN = ("POLL_S = 10", "POLL_S = 0.1")


def synthesised() -> str:
    stack = small_stack()
    SingleModelEndpoint(
        stack,
        "Endpoint",
        repository=ModelRepository(stack, "Repository"),
        variants=[Variant(artifact=ARTIFACT)],
        endpoint_name="single",
    )
    return template_of(stack).replace(*OFTEN)


def publish(aws: EmbeddedAws) -> None:
    [bucket] = physical_ids(aws, "AWS::S3::Bucket")
    aws.client("s3").put_object(Bucket=bucket, Key=f"models/{ARTIFACT}", Body=b"artifact")


def test_the_endpoint_comes_up_when_its_artifact_is_published_during_the_deployment(aws: EmbeddedAws) -> None:
    template = json.loads(synthesised())
    stack = begin(aws, template.pop("Resources"), **template)
    until(lambda: logged(aws, f"Waiting for {ARTIFACT}") > 1)
    assert aws.client("sagemaker").list_models()["Models"] == []

    publish(aws)

    assert ended(aws, stack) == "CREATE_COMPLETE"
    assert aws.missing_resources("s") == []
    assert described(aws, "single")["EndpointStatus"] == "InService"
    assert served(aws) == ARTIFACT
    assert destroy(aws) == "DELETE_COMPLETE"
