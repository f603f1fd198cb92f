"""A deployment that builds the model which its endpoint serves: it waits for the build, and ends with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, CfnOutput, DefaultStackSynthesizer, Stack
from aws_cdk.assertions import Template
from deployed_functions import begin, destroy, ended, logged, outputs, until

from rehearsal.aws.embedded import EmbeddedAws
from triton_fleet import DeploymentBuild, ModelBuilds, ModelRepository, SingleModelEndpoint, Variant

SOURCE = Path(__file__).parents[2] / "model_builds"
ARTIFACT = "resnet50-0123456789ab.tar.gz"
# The function asks every fifteen seconds. Nothing else of it is changed for the tests.
OFTEN = ("POLL_S = 15", "POLL_S = 0.1")


@pytest.fixture
def aws() -> Iterator[EmbeddedAws]:
    with EmbeddedAws() as opened:
        yield opened


@cache
def synthesised() -> str:
    stack = Stack(App(), "S", synthesizer=DefaultStackSynthesizer(generate_bootstrap_version_rule=False))
    repository = ModelRepository(stack, "Repository")
    builds = ModelBuilds(stack, "Builds", repository=repository, source=SOURCE, models=["resnet50"])
    artifact = DeploymentBuild(stack, "Build", builds=builds).artifact("resnet50")
    SingleModelEndpoint(
        stack,
        "Endpoint",
        repository=repository,
        variants=[Variant(artifact=artifact)],
        endpoint_name="single",
        artifact_timeout=None,
    )
    CfnOutput(stack, "Artifact", value=artifact)
    return json.dumps(Template.from_stack(stack).to_json())


def deploy(aws: EmbeddedAws) -> str:
    """Begin to deploy the stack; its id."""
    found: dict[str, Any] = json.loads(synthesised())
    [function] = [each for each in found["Resources"].values() if each["Type"] == "AWS::Lambda::Function"]
    code = function["Properties"]["Code"]
    assert OFTEN[0] in code["ZipFile"]
    code["ZipFile"] = code["ZipFile"].replace(*OFTEN)
    return begin(aws, found.pop("Resources"), **found)


def build_of(aws: EmbeddedAws) -> dict[str, Any]:
    """The build that the deployment has started."""
    codebuild = aws.client("codebuild")
    [build] = codebuild.batch_get_builds(ids=codebuild.list_builds()["ids"])["builds"]
    return dict(build)


def tell(aws: EmbeddedAws, **verdict: Any) -> None:
    """Write the verdict on the model where the build was told to."""
    variables = {each["name"]: each["value"] for each in build_of(aws)["environment"]["environmentVariables"]}
    bucket, _, key = variables["FLEET_VERDICTS"].removeprefix("s3://").partition("/")
    document = {"finished": True, "models": [{"model": "resnet50", "problems": [], **verdict}]}
    aws.client("s3").put_object(Bucket=bucket, Key=key, Body=json.dumps(document).encode())


def test_the_endpoint_serves_what_the_deployment_has_built(aws: EmbeddedAws) -> None:
    stack, sagemaker = deploy(aws), aws.client("sagemaker")
    until(lambda: logged(aws, "Waiting for resnet50") > 1)
    assert sagemaker.list_models()["Models"] == []

    tell(aws, result="published", step="publish", artifact=ARTIFACT)

    assert ended(aws, stack) == "CREATE_COMPLETE"
    assert outputs(aws)["Artifact"] == ARTIFACT
    [model] = sagemaker.list_models()["Models"]
    container = sagemaker.describe_model(ModelName=model["ModelName"])["PrimaryContainer"]
    assert container["ModelDataUrl"].endswith(f"/models/{ARTIFACT}")
    assert destroy(aws) == "DELETE_COMPLETE"


def test_a_model_that_fails_fails_the_deployment_and_the_build_does_not_go_on(aws: EmbeddedAws) -> None:
    stack = deploy(aws)
    until(lambda: logged(aws, "Waiting for resnet50") > 1)

    tell(
        aws, result="failed", step="build", problems=[{"what": "no operator Foo", "fix": "use Bar"}], log="l"
    )

    status = ended(aws, stack)
    assert status.startswith("ROLLBACK_COMPLETE")
    assert "resnet50 failed in the step build: no operator Foo. use Bar. Log: l." in status
    assert build_of(aws)["buildStatus"] == "STOPPED"
    assert aws.client("sagemaker").list_endpoints()["Endpoints"] == []
