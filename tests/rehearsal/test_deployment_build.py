"""A deployment that builds the model of its endpoint: it waits for the build and shares its outcome."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import CfnOutput
from synthesised_stacks import small_stack, template_of

from aws_for_tests.deployed_functions import begin, destroy, ended, logged, outputs, until
from embedded_aws import EmbeddedAws
from tests.rehearsal.deployed_endpoints import served
from triton_fleet import DeploymentBuild, ModelBuildProject, ModelRepository, SingleModelEndpoint, Variant
from triton_models.repository.manifest import MANIFEST_NAME, ArtifactRecord, Manifest, Publication, Repository
from triton_models.repository.stored_manifest import read_manifest

pytestmark = pytest.mark.story

SOURCE = Path(__file__).parents[2] / "model_builds"
ARTIFACT = "resnet50-0123456789ab.tar.gz"
# The function polls every fifteen seconds. Only this is changed for the tests.
OFTEN = ("POLL_S = 15", "POLL_S = 0.1")


@cache
def synthesised() -> str:
    stack = small_stack()
    repository = ModelRepository(stack, "Repository")
    builds = ModelBuildProject(stack, "Builds", repository=repository, source=SOURCE, models=["resnet50"])
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
    CfnOutput(stack, "Url", value=repository.url)
    return template_of(stack).replace(*OFTEN)


def deploy(aws: EmbeddedAws) -> str:
    """Begin to deploy the stack. Returns its id."""
    found: dict[str, Any] = json.loads(synthesised())
    return begin(aws, found.pop("Resources"), **found)


def build_of(aws: EmbeddedAws) -> dict[str, Any]:
    """Return the build that the last deployment has started."""
    codebuild = aws.client("codebuild")
    builds = codebuild.batch_get_builds(ids=codebuild.list_builds()["ids"])["builds"]
    return dict(max(builds, key=lambda build: build["startTime"]))


def write_result(aws: EmbeddedAws, **result: Any) -> None:
    """Write the model's result to the key at which the build must write it."""
    variables = {each["name"]: each["value"] for each in build_of(aws)["environment"]["environmentVariables"]}
    bucket, _, key = variables["FLEET_RESULTS"].removeprefix("s3://").partition("/")
    document = {"finished": True, "models": [{"model": "resnet50", "problems": [], **result}]}
    aws.client("s3").put_object(Bucket=bucket, Key=key, Body=json.dumps(document).encode())


def test_the_endpoint_serves_what_the_deployment_has_built(aws: EmbeddedAws) -> None:
    stack = deploy(aws)
    until(lambda: logged(aws, "Waiting for resnet50") > 1)
    assert aws.client("sagemaker").list_models()["Models"] == []

    write_result(aws, status="published", step="publish", artifact=ARTIFACT)

    assert ended(aws, stack) == "CREATE_COMPLETE"
    assert outputs(aws)["Artifact"] == ARTIFACT
    assert served(aws) == ARTIFACT
    assert destroy(aws) == "DELETE_COMPLETE"


def built(aws: EmbeddedAws, artifact: str, *, builds: int) -> None:
    """End the newest build as if it had published an artifact, and moved the model's name to it."""
    until(lambda: len(aws.client("codebuild").list_builds()["ids"]) == builds)
    s3 = aws.client("s3")
    [bucket] = (each["Name"] for each in s3.list_buckets()["Buckets"])
    record = ArtifactRecord(size=1, sha256=artifact.split("-")[1][:16] * 4, build={})
    wanted = Publication(model="resnet50", artifact=artifact, record=record)
    manifest = Manifest().with_published([wanted], at=datetime.now(timezone.utc), by="builder")
    s3.put_object(Bucket=bucket, Key=f"models/{MANIFEST_NAME}", Body=manifest.to_json().encode())
    write_result(aws, status="published", step="publish", artifact=artifact)
    aws.finish_build(build_of(aws)["id"], status="SUCCEEDED")


def test_a_deployment_that_fails_after_its_build_leaves_the_names_that_have_moved(aws: EmbeddedAws) -> None:
    stack = deploy(aws)
    built(aws, ARTIFACT, builds=1)
    assert ended(aws, stack) == "CREATE_COMPLETE"
    found: dict[str, Any] = json.loads(synthesised())
    resources = found["Resources"]
    [build] = [each for each in resources.values() if each["Type"] == "Custom::TritonBuild"]
    build["Properties"]["Inputs"] = "others"
    [config] = [each for each in resources.values() if each["Type"] == "AWS::SageMaker::EndpointConfig"]
    config["Properties"]["ProductionVariants"][0]["InstanceType"] = "ml.g99.xlarge"

    begun = begin(aws, found.pop("Resources"), verb="update", **found)
    newer = "resnet50-fedcba9876543210.tar.gz"
    built(aws, newer, builds=2)

    assert ended(aws, begun, verb="update").startswith("UPDATE_ROLLBACK_COMPLETE")
    url = Repository.parse(outputs(aws)["Url"])
    model = read_manifest(url, s3=aws.client("s3")).models["resnet50"]
    assert set(model.current.values()) == {newer}
    assert len(aws.client("codebuild").list_builds()["ids"]) == 2
    assert served(aws) == ARTIFACT
