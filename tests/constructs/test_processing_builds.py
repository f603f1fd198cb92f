from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Duration
from botocore_model import refused, resolved
from declared import declare, template_of_build

from triton_fleet.builds.code import run_processing_job
from triton_fleet.builds.commands import commands
from triton_models.facts.instances import GPUS

BUILD_ID = "FleetBuilds-AbC123:01234567-89ab-cdef-0123-456789abcdef"
Template_ = dict[str, Any]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template_:
    folder = declare(tmp_path_factory.mktemp("model_builds"), "minilm")
    return template_of_build(folder, instance_type="ml.g4dn.xlarge", timeout=Duration.hours(3))


def _of(template: Template_, kind: str, name: str = "") -> dict[str, Any]:
    ((_, resource),) = ((n, r) for n, r in template["Resources"].items() if r["Type"] == kind and name in n)
    properties: dict[str, Any] = resource["Properties"]
    return properties


@pytest.fixture
def environment(template: Template_) -> dict[str, str]:
    """Return the environment of the program that starts a job."""
    variables = _of(template, "AWS::CodeBuild::Project")["Environment"]["EnvironmentVariables"]
    found = {each["Name"]: resolved(each["Value"], template) for each in variables}
    return {"CODEBUILD_BUILD_ID": BUILD_ID, "HOME": "/root", **found}


def _statements(template: Template_, policy: str) -> dict[str, dict[str, Any]]:
    document = _of(template, "AWS::IAM::Policy", policy)["PolicyDocument"]
    return {each.get("Sid", each["Action"][0]): each for each in document["Statement"]}


def test_the_job_runs_the_buildspecs_commands_in_the_serving_image_on_the_serving_hardware(
    environment: dict[str, str],
) -> None:
    request = run_processing_job.job_request(environment)
    application = request["AppSpecification"]

    assert application["ImageUri"].endswith("/sagemaker-tritonserver:25.09-py3")
    assert request["ProcessingResources"]["ClusterConfig"]["InstanceType"] == "ml.g4dn.xlarge"
    assert application["ContainerArguments"] == [
        "minilm",
        "--",
        *(command for phase in commands(GPUS["T4"]).values() for command in phase),
    ]
    assert request["Environment"] | {"FLEET_GPU": "T4", "FLEET_RELEASE": "25.09"} == request["Environment"]


def test_what_a_build_overrides_reaches_the_job(environment: dict[str, str]) -> None:
    changed = environment | {"FLEET_MODELS": "a b", "FLEET_REPOSITORY": "s3://other/x/", "FLEET_NEW": "1"}
    request = run_processing_job.job_request(changed)

    assert request["AppSpecification"]["ContainerArguments"][:2] == ["a b", "--"]
    assert request["Environment"]["FLEET_REPOSITORY"] == "s3://other/x/"
    assert request["Environment"]["FLEET_NEW"] == "1"
    assert "HOME" not in request["Environment"]


def test_more_models_than_a_variable_holds_are_several_arguments(environment: dict[str, str]) -> None:
    many = " ".join(f"bert-base-{number:04}" for number in range(1000))
    request = run_processing_job.job_request(environment | {"FLEET_MODELS": many})

    assert refused("sagemaker", "CreateProcessingJob", request) == []
    assert " ".join(request["AppSpecification"]["ContainerArguments"]).startswith(f"{many} --")


def test_more_models_than_a_job_takes_are_reported(environment: dict[str, str]) -> None:
    many = " ".join(f"bert-base-{number:06}" for number in range(3000))

    with pytest.raises(SystemExit, match="start builds of fewer models"):
        run_processing_job.job_request(environment | {"FLEET_MODELS": many})


def test_the_job_ends_in_time_and_the_build_waits_longer(
    template: Template_, environment: dict[str, str]
) -> None:
    request = run_processing_job.job_request(environment)

    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": 3 * 3600}
    assert _of(template, "AWS::CodeBuild::Project")["TimeoutInMinutes"] == 3 * 60 + 30


def test_the_build_that_waits_needs_no_gpu_and_no_source(template: Template_) -> None:
    project = _of(template, "AWS::CodeBuild::Project")

    assert project["Environment"]["Type"] == "LINUX_CONTAINER"
    assert project["Environment"]["ComputeType"] == "BUILD_GENERAL1_SMALL"
    assert project["Source"]["Type"] == "NO_SOURCE"


def test_the_job_may_publish_pull_read_its_source_log_and_put_out_metrics(template: Template_) -> None:
    statements = _statements(template, "BuildsRole")
    everything = {
        action
        for each in statements.values()
        for action in ([each["Action"]] if isinstance(each["Action"], str) else each["Action"])
    }

    assert everything == {
        "s3:ListBucket",
        "s3:GetObject",
        "s3:PutObject",
        "s3:AbortMultipartUpload",
        "kms:Decrypt",
        "kms:GenerateDataKey",
        "ecr:GetAuthorizationToken",
        "ecr:BatchCheckLayerAvailability",
        "ecr:BatchGetImage",
        "ecr:GetDownloadUrlForLayer",
        "logs:CreateLogGroup",
        "logs:DescribeLogStreams",
        "logs:CreateLogStream",
        "logs:PutLogEvents",
        "cloudwatch:PutMetricData",
    }
    on_everything = [name for name, each in statements.items() if each["Resource"] == "*"]
    assert on_everything == ["ImageLogin", "Metrics"]
    assert "Condition" in statements["Metrics"]


def test_what_starts_a_job_can_only_start_this_projects_jobs_with_their_role(template: Template_) -> None:
    statements = _statements(template, "StarterRole")

    assert set(statements) == {"Jobs", "JobRole", "JobLogs", "Logs"}
    assert "processing-job/" in resolved(statements["Jobs"]["Resource"], template)
    assert statements["JobRole"]["Condition"] == {
        "StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}
    }
    assert statements["JobRole"]["Resource"]["Fn::GetAtt"][0].startswith("BuildsRole")


def test_the_name_of_a_job_fits_what_the_role_may_start(
    template: Template_, environment: dict[str, str]
) -> None:
    pattern = resolved(_statements(template, "StarterRole")["Jobs"]["Resource"], template)
    name = run_processing_job.job_request(environment)["ProcessingJobName"]

    assert name.startswith(pattern.split("/")[1].removesuffix("*"))


def test_sagemaker_takes_the_role_of_a_job_and_codebuild_that_of_what_starts_it(template: Template_) -> None:
    trusted = {
        name: _of(template, "AWS::IAM::Role", name)["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]
        for name in ("BuildsRole", "BuildsStarterRole")
    }

    assert trusted == {
        "BuildsRole": {"Service": "sagemaker.amazonaws.com"},
        "BuildsStarterRole": {"Service": "codebuild.amazonaws.com"},
    }


class _SageMaker:
    """SageMaker's answers about one job, as the API gives them."""

    class exceptions:  # noqa: N801 -- boto3's name
        class ResourceLimitExceeded(Exception):  # noqa: N818 -- SageMaker's name
            pass

    def __init__(self, *jobs: dict[str, str], limited: bool = False) -> None:
        self.jobs, self.limited = list(jobs), limited
        self.stopped: list[str] = []

    def create_processing_job(self, **_: Any) -> None:
        if self.limited:
            raise self.exceptions.ResourceLimitExceeded("the limit is 0 Instances")

    def describe_processing_job(self, **_: str) -> dict[str, str]:
        if not self.jobs:
            raise ConnectionError
        return self.jobs.pop(0)

    def stop_processing_job(self, ProcessingJobName: str) -> None:  # noqa: N803
        self.stopped.append(ProcessingJobName)


class _Logs:
    """CloudWatch's answers: each look finds every line so far. A line is a day after the one before."""

    class exceptions:  # noqa: N801
        class ResourceNotFoundException(Exception):  # noqa: N818
            pass

    def __init__(self, *looks: list[str]) -> None:
        self.looks, self.begun = list(looks), list[int]()

    def get_paginator(self, _: str) -> _Logs:
        return self

    def paginate(self, *, startTime: int, **_: Any) -> Iterator[dict[str, Any]]:  # noqa: N803
        self.begun.append(startTime)
        if not self.looks:
            raise self.exceptions.ResourceNotFoundException
        lines = enumerate(self.looks.pop(0), start=1)
        begin = self.begun[0]
        yield {
            "events": [
                {"eventId": line, "message": line, "timestamp": begin + days * DAY_MS} for days, line in lines
            ]
        }


DAY_MS = 86_400_000
WORKING = {"ProcessingJobStatus": "InProgress"}


def _run(environment: dict[str, str], sagemaker: _SageMaker, logs: _Logs) -> int:
    return run_processing_job.run(run_processing_job.job_request(environment), sagemaker, logs, poll_s=0)


def test_a_build_shows_its_jobs_log_once_and_ends_as_the_job_ends(
    environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    sagemaker = _SageMaker(WORKING, WORKING, {"ProcessingJobStatus": "Completed"})
    logs = _Logs([], ["one"], ["one", "two"])

    assert _run(environment, sagemaker, logs) == 0
    assert capsys.readouterr().out.splitlines()[1:3] == ["one", "two"]
    assert sagemaker.stopped == []
    assert logs.begun[2] - logs.begun[0] == DAY_MS - 60_000  # what was shown long ago is not read again


def test_a_build_that_cannot_wait_any_more_stops_its_job(environment: dict[str, str]) -> None:
    sagemaker = _SageMaker(WORKING)

    with pytest.raises(ConnectionError):
        _run(environment, sagemaker, _Logs())
    assert len(sagemaker.stopped) == 1


def test_a_quota_that_is_too_low_names_the_command_that_shows_it(environment: dict[str, str]) -> None:
    with pytest.raises(SystemExit, match=r"fleet check-quotas --instance-type ml\.g4dn\.xlarge"):
        _run(environment, _SageMaker(limited=True), _Logs())


def test_the_project_carries_the_whole_program(template: Template_) -> None:
    spec = json.loads(_of(template, "AWS::CodeBuild::Project")["Source"]["BuildSpec"])
    (command,) = spec["phases"]["build"]["commands"]
    program = command.partition("\n")[2].removesuffix("\nEND_OF_PROGRAM")

    assert program == Path(run_processing_job.__file__).read_text().rstrip()
    compile(program, "program", "exec")
