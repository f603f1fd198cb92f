"""A build that needs a Processing job is rehearsed as it runs on AWS: started, logged and awaited."""

from __future__ import annotations

import json
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from aws_for_tests.deployed_functions import running, until
from aws_for_tests.executions import ROLE
from aws_for_tests.fixture import aws_fixture
from embedded_aws import EmbeddedAws
from tests.rehearsal.small_projects import create_project
from triton_fleet.builds.commands import build_spec
from triton_fleet.builds.processing_jobs import _ENTRYPOINT, program
from triton_models.base.errors import FleetError
from triton_rehearsal.builds.processing_job import run_job
from triton_rehearsal.builds.runner import BuildRunner

aws = aws_fixture(scope="module")


@pytest.fixture(scope="module")
def source(aws: EmbeddedAws, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A source archive in the form of the asset, with one file."""
    archive: Path = tmp_path_factory.mktemp("asset") / "hash.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("message", "from the source")
    aws.client("s3").create_bucket(Bucket="assets")
    aws.client("s3").upload_file(str(archive), "assets", "hash.zip")
    return "s3://assets/hash.zip"


def _request(source: str, *commands: str) -> dict[str, Any]:
    s3_input = {"S3Uri": source, "LocalPath": "/opt/ml/processing/source", "S3DataType": "S3Prefix"}
    return {
        "RoleArn": ROLE,
        "AppSpecification": {
            "ImageUri": "image",
            "ContainerEntrypoint": ["bash", "-c", _ENTRYPOINT, "build"],
            "ContainerArguments": ["--", *commands],
        },
        "ProcessingInputs": [{"InputName": "source", "S3Input": s3_input}],
        "ProcessingResources": {
            "ClusterConfig": {"InstanceCount": 1, "InstanceType": "ml.g4dn.xlarge", "VolumeSizeInGB": 100}
        },
        "Environment": {},
    }


def _project(aws: EmbeddedAws, name: str, request: dict[str, Any]) -> str:
    variables = {
        "FLEET_JOB": json.dumps(request),
        "FLEET_JOB_PREFIX": name,
        "FLEET_MODELS": "minilm",
        "FLEET_REPOSITORY": "s3://models/",
    }
    create_project(aws, name, json.dumps(build_spec({"build": [program()]})), variables=variables)
    return name


def test_a_build_runs_its_job_with_its_source_and_its_overrides(aws: EmbeddedAws, source: str) -> None:
    says = 'echo "$(cat message): $FLEET_MODELS for $FLEET_REPOSITORY"'
    project = _project(aws, "good", _request(source, says))
    lines: list[str] = []

    with BuildRunner(aws) as builds:
        builds.run(project=project, overrides={"FLEET_MODELS": "a b"}, on_line=lines.append)

    assert "from the source:  a b for s3://models/" in lines
    assert lines[-1].endswith(": Completed")


def test_a_job_that_fails_fails_the_build_with_the_end_of_its_log(aws: EmbeddedAws, source: str) -> None:
    project = _project(aws, "bad", _request(source, "echo it broke", "false", "echo never"))

    with pytest.raises(FleetError) as caught, BuildRunner(aws) as builds:
        builds.run(project=project, overrides={})

    (problem,) = caught.value.problems
    assert "it broke" in problem.why
    assert "AlgorithmError: , exit code: 1" in problem.why
    assert "\nnever" not in problem.why


def test_a_job_that_cannot_be_run_has_failed_and_its_name_is_used_once(aws: EmbeddedAws, source: str) -> None:
    sagemaker = aws.client("sagemaker")
    request = _request("s3://nowhere/hash.zip", "true") | {"ProcessingJobName": "lost"}
    with aws.run_jobs(partial(run_job, aws)):
        sagemaker.create_processing_job(**request)
        job = sagemaker.describe_processing_job(ProcessingJobName="lost")
        with pytest.raises(ClientError, match="must be unique"):
            sagemaker.create_processing_job(**request)

    assert job["ProcessingJobStatus"] == "Failed"
    assert job["ProcessingResources"] == request["ProcessingResources"]
    assert "NoSuchBucket" in job["FailureReason"]


@pytest.mark.parametrize("how", ["stopped", "late", "abandoned"])
def test_a_job_that_is_stopped_late_or_outlived_by_the_rehearsal_ends_with_everything_that_it_started(
    aws: EmbeddedAws, source: str, tmp_path: Path, how: str
) -> None:
    mark, sagemaker = tmp_path / how, aws.client("sagemaker")
    hang = f"setsid sleep 60 > /dev/null & echo $! > {mark}.new; mv {mark}.new {mark}; sleep 60"
    limit = {"StoppingCondition": {"MaxRuntimeInSeconds": 5}} if how == "late" else {}
    with aws.run_jobs(partial(run_job, aws)):
        sagemaker.create_processing_job(**_request(source, hang), ProcessingJobName=how, **limit)
        until(mark.exists)
        if how == "stopped":
            sagemaker.stop_processing_job(ProcessingJobName=how)
        if how != "abandoned":
            until(lambda: not running(int(mark.read_text())))

    assert sagemaker.describe_processing_job(ProcessingJobName=how)["ProcessingJobStatus"] == "Stopped"
    assert not running(int(mark.read_text()))
