"""A single-model endpoint is deployed before its artifact is published: the deployment waits for it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from synthesised_stacks import small_stack, template_of

from aws_for_tests.deployed_functions import begin, destroy, ended, logged, physical_ids, until
from embedded_aws import EmbeddedAws
from tests.rehearsal.deployed_endpoints import described, served
from triton_fleet import ModelRepository, SingleModelEndpoint, Variant

pytestmark = pytest.mark.story

ARTIFACT = "resnet50-0123456789ab.tar.gz"
WAIT = "Custom::TritonArtifact"
WAITS = "Waits for artifacts"
# The function asks S3 every ten seconds. Only this is changed for the tests, unless one states otherwise.
QUICK = {"POLL_S = 10": "POLL_S = 0.1"}


@cache
def synthesised() -> str:
    stack = small_stack()
    SingleModelEndpoint(
        stack,
        "Endpoint",
        repository=ModelRepository(stack, "Repository"),
        variants=[Variant(artifact=ARTIFACT)],
        endpoint_name="single",
    )
    return template_of(stack)


def template(replaced: dict[str, str] = QUICK, **waiting: Any) -> dict[str, Any]:
    """Return the endpoint's template, with replaced parts of the function's code and of the wait."""
    found: dict[str, Any] = json.loads(synthesised())
    resources = found["Resources"].values()
    functions = [each for each in resources if each["Type"] == "AWS::Lambda::Function"]
    [function] = [each for each in functions if WAITS in each["Properties"]["Description"]]
    for old, new in replaced.items():
        assert old in function["Properties"]["Code"]["ZipFile"]
        code = function["Properties"]["Code"]
        code["ZipFile"] = code["ZipFile"].replace(old, new)
    [wait] = [each for each in resources if each["Type"] == WAIT]
    wait["Properties"] |= waiting
    return found


def deploy(aws: EmbeddedAws, found: dict[str, Any]) -> str:
    """Begin to deploy a template. Returns the stack's id."""
    return begin(aws, found.pop("Resources"), **found)


def publish(aws: EmbeddedAws) -> None:
    [bucket] = physical_ids(aws, "AWS::S3::Bucket")
    aws.client("s3").put_object(Bucket=bucket, Key=f"models/{ARTIFACT}", Body=b"artifact")


def test_the_endpoint_comes_up_when_its_artifact_is_published_during_the_deployment(aws: EmbeddedAws) -> None:
    stack = deploy(aws, template())
    until(lambda: logged(aws, f"Waiting for {ARTIFACT}") > 1)
    assert aws.client("sagemaker").list_models()["Models"] == []

    publish(aws)

    assert ended(aws, stack) == "CREATE_COMPLETE"
    assert aws.missing_resources("s") == []
    assert described(aws, "single")["EndpointStatus"] == "InService"
    assert served(aws) == ARTIFACT
    assert destroy(aws) == "DELETE_COMPLETE"


def test_the_wait_outlives_the_function_that_began_it(aws: EmbeddedAws) -> None:
    # Each invocation now hands over to the next one after half a second.
    stack = deploy(aws, template({**QUICK, "SPARE_S = 45": "SPARE_S = 899.5"}))
    until(lambda: logged(aws, "START RequestId") > 2)

    publish(aws)

    assert ended(aws, stack) == "CREATE_COMPLETE"


def test_an_artifact_that_never_comes_fails_the_deployment_and_is_named(aws: EmbeddedAws) -> None:
    stack = deploy(aws, template(WaitSeconds=1))

    status = ended(aws, stack)

    assert status.startswith("ROLLBACK_COMPLETE")
    assert f"Missing: {ARTIFACT}" in status
    assert aws.client("sagemaker").list_endpoints()["Endpoints"] == []
