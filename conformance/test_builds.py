"""Beliefs about the machines that build models: CodeBuild's, and those of Processing jobs."""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError

from conformance.account import Account, allow, denied
from conformance.beliefs import account
from conformance.gpu.machine import numbers
from conformance.records import Asked
from conformance.sweep import absent
from triton_fleet.endpoint.functions.code import deployment_build
from triton_models.builds.tensorrt.machine import IMAGE_TRTEXEC
from triton_models.facts.build_machines import BUILD_MACHINES, CPU_BUILD_MACHINE, PROCESSING_TYPES

pytestmark = account(cheap=True, minutes=0)  # unless a test says otherwise

QUERY = "nvidia-smi --query-gpu=name,driver_version --format=csv,noheader"
CODEBUILD_IMAGE = "aws/codebuild/amazonlinux-x86_64-standard:5.0"
HOST = "the hosts of AWS's builds"
JOB = "a role, a Processing job"
MARKER = "the source was read"
MESSAGE = "/opt/ml/output/message"
CONFIG = "/opt/ml/config/processingjobconfig.json"
JOB_LOGS = "/aws/sagemaker/ProcessingJobs"
# Messages of NVIDIA's container runtime if the host's driver is older than the image requires.
TOO_OLD = ("unsatisfied condition", "cuda>=", "please update your driver")


@contextmanager
def hosted(aws: Any) -> Iterator[str]:
    from triton_rehearsal.builds.runner import BuildRunner

    with BuildRunner(aws):
        yield ""


@dataclass(frozen=True, kw_only=True)
class Build:
    status: str  # empty if it did not start
    why: str = ""  # the reason if it did not succeed
    printed: Mapping[str, str]  # by variable, the output of its commands
    log: str | None = None  # the name of its stream
    refused: float = 0.0  # seconds for which StartBuild refused the caller's new role


def project(aws: Account, suffix: str, commands: Mapping[str, str], **more: Any) -> str:
    """Create a project that exports the output of commands, and return its name."""
    spec = {
        "version": "0.2",
        "env": {"exported-variables": list(commands)},
        "phases": {"build": {"commands": [f'export {k}="$({v} 2>&1)"' for k, v in commands.items()]}},
    }
    name = aws.name(suffix)
    request = {
        "name": name,
        "source": {"type": "NO_SOURCE", **more.pop("source", {}), "buildspec": json.dumps(spec)},
        "artifacts": {"type": "NO_ARTIFACTS"},
        "serviceRole": more.pop("role", None) or aws.role,
        "timeoutInMinutes": 20,
        "queuedTimeoutInMinutes": 10,
        "logsConfig": {"cloudWatchLogs": more.pop("logs", {"status": "DISABLED"})},
        "environment": {"imagePullCredentialsType": "SERVICE_ROLE", **more},
        "tags": aws.lower_tags,
    }
    aws.with_new_role(lambda: aws.client("codebuild").create_project(**request))
    return name


def run_build(aws: Account, name: str, starter: Any = None, *, refused_minutes: float = 0.0) -> Build:
    """Run a project's build, started by the caller or by a new role, and wait for its end."""
    codebuild, began, refused = aws.client("codebuild"), time.monotonic(), 0.0
    starter = starter or codebuild
    while True:
        try:
            # The token makes a repeated request start no second build.
            request = {"projectName": name, "idempotencyToken": name}
            started = aws.with_new_role(lambda: starter.start_build(**request))  # noqa: B023
            break
        except ClientError as error:
            if starter is codebuild or not denied(error):
                raise
            refused = time.monotonic() - began
            if refused > refused_minutes * 60:
                starter = codebuild
        aws.pause()

    def ended() -> Any:
        [shown] = codebuild.batch_get_builds(ids=[started["build"]["id"]])["builds"]
        return shown if shown.get("buildComplete") else None

    build = aws.until(ended, minutes=30, what="the build")
    contexts = [context for phase in build.get("phases", ()) for context in phase.get("contexts") or ()]
    return Build(
        status=build["buildStatus"],
        why="; ".join(f"{each.get('statusCode')}: {each.get('message')}" for each in contexts),
        printed={
            each["name"]: each.get("value", "") for each in build.get("exportedEnvironmentVariables") or ()
        },
        log=(build.get("logs") or {}).get("streamName"),
        refused=refused,
    )


@pytest.fixture(scope="module")
def source_build(aws: Account) -> Build:
    """A build whose source a narrow role reads from S3, in CodeBuild's own image, started by a new role."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("marker", MARKER)
    aws.client("s3").put_object(Bucket=aws.bucket, Key="source.zip", Body=packed.getvalue())
    bucket = f"arn:{aws.partition}:s3:::{aws.bucket}"
    group = aws.log_group(f"/aws/codebuild/{aws.name('source')}")
    role = aws.new_role(
        "source",
        {"Service": "codebuild.amazonaws.com"},
        allow(["s3:GetObject", "s3:GetObjectVersion"], f"{bucket}/source.zip"),
        allow(["s3:GetBucketAcl", "s3:GetBucketLocation"], bucket),
        allow(["logs:CreateLogStream", "logs:PutLogEvents"], aws.arn("logs", f"log-group:{group}:*")),
    )
    commands = {
        "SOURCE": "cat marker",
        "LOG_PATH": "echo $CODEBUILD_LOG_PATH",
        "BOTO3": "python3 -c 'import boto3; print(boto3.__version__)'",
    }
    name = project(
        aws,
        "source",
        commands,
        source={"type": "S3", "location": f"{aws.bucket}/source.zip"},
        role=role,
        logs={"status": "ENABLED", "groupName": group},
        type="LINUX_CONTAINER",
        image=CODEBUILD_IMAGE,
        computeType="BUILD_GENERAL1_SMALL",
        imagePullCredentialsType="CODEBUILD",
    )
    starts = allow(["codebuild:StartBuild"], aws.arn("codebuild", f"project/{name}"))
    return run_build(aws, name, aws.as_role("codebuild", "starter", starts), refused_minutes=10)


@account(cheap=True, minutes=5, dollars=0.06, creates="a bucket, roles, a log group, a project, one build")
def test_a_build_reads_its_source_with_a_fleets_permissions(source_build: Build, ask: Asked) -> None:
    assert ask(lambda: source_build.printed.get("SOURCE", source_build.why)) == MARKER


@account(cheap=True, minutes=0, alone="the time until a new role may start a build")
def test_a_new_role_may_start_a_build_within_the_functions_grace(source_build: Build, ask: Asked) -> None:
    assert ask(lambda: source_build.refused) <= deployment_build.REFUSED_S


def test_a_build_knows_the_name_of_its_log(source_build: Build, ask: Asked) -> None:
    assert ask(
        lambda: source_build.log is not None and source_build.printed.get("LOG_PATH") == source_build.log
    )


def test_codebuilds_image_has_python_with_boto3(source_build: Build, ask: Asked) -> None:
    version = ask(lambda: source_build.printed.get("BOTO3", source_build.why)[:2], "its version")
    assert version.rstrip(".").isdigit()


@pytest.fixture(scope="module")
def gpu_build(aws: Account) -> Build:
    """A build on CodeBuild's machine with a GPU, in the image; without a status if the quota is 0."""
    machine = BUILD_MACHINES["A10G"]
    if not aws.embedded and not machine.offered_in(aws.region):
        pytest.skip(f"CodeBuild offers no GPU on demand in {aws.region}")
    commands = {"HOST": QUERY, "TRTEXEC": f"ls {IMAGE_TRTEXEC}"}
    kind = {"type": "LINUX_GPU_CONTAINER", "computeType": machine.compute_type, "image": aws.image()}
    try:
        return run_build(aws, project(aws, "gpu", commands, **kind))
    except ClientError as error:
        if "AccountLimitExceeded" not in str(error):
            raise
        return Build(status="", why=str(error), printed={})


@account(cheap=True, minutes=10, dollars=0.80, alone=HOST, creates="a role, a project, one build")
def test_a_build_gets_the_gpu_and_the_image(gpu_build: Build, ask: Asked) -> None:
    assert "A10G" in ask(lambda: host_of(gpu_build), "nvidia-smi")
    assert ask(lambda: gpu_build.printed.get("TRTEXEC"), "trtexec") == str(IMAGE_TRTEXEC)


@account(cheap=True, minutes=0, alone="the quota of an account")
def test_a_build_without_a_quota_is_refused_at_once(gpu_build: Build, ask: Asked) -> None:
    refused = ask(lambda: None if gpu_build.status else gpu_build.why)
    if refused is None:
        pytest.skip("the account has a quota for GPU builds")
    assert "AccountLimitExceeded" in refused


def host_of(build: Build) -> str:
    """Return nvidia-smi's line in a build, or why the build failed; without a quota the test is skipped."""
    if not build.status:
        pytest.skip(build.why)
    return build.printed.get("HOST", build.why)


@account(minutes=8, dollars=0.12, creates="a role, a project, one build")
def test_the_image_for_cpus_runs_on_a_machine_without_a_gpu(aws: Account, ask: Asked) -> None:
    def python() -> bool:
        kind = {"type": "LINUX_CONTAINER", "computeType": CPU_BUILD_MACHINE.compute_type}
        build = run_build(
            aws, project(aws, "cpu", {"PYTHON": "python3 --version"}, image=aws.image("-cpu"), **kind)
        )
        return build.printed.get("PYTHON", build.why).startswith("Python 3")

    assert ask(python)


@pytest.fixture(scope="module")
def job(aws: Account) -> Any:
    """A Processing job on the endpoint's GPU, in the release's image, that prints its driver and its name."""
    sagemaker, name, kind = aws.client("sagemaker"), aws.name("job"), aws.instance.name
    if kind not in PROCESSING_TYPES:
        pytest.skip(f"a Processing job cannot run on {kind}")
    find = f"""grep -o '"ProcessingJobName": *"[^"]*"' {CONFIG}"""
    request = {
        "ProcessingJobName": name,
        "RoleArn": aws.role,
        "AppSpecification": {
            "ImageUri": aws.image(),
            "ContainerEntrypoint": ["/bin/sh", "-c"],
            "ContainerArguments": [f"({QUERY}; {find}; true) > {MESSAGE} 2>&1"],
        },
        "ProcessingResources": {
            "ClusterConfig": {"InstanceType": kind, "InstanceCount": 1, "VolumeSizeInGB": 100}
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 900},
        "Tags": aws.tags,
    }
    aws.with_new_role(lambda: sagemaker.create_processing_job(**request))

    def ended() -> Any:
        shown = sagemaker.describe_processing_job(ProcessingJobName=name)
        return shown if shown["ProcessingJobStatus"] in {"Completed", "Failed", "Stopped"} else None

    return aws.until(ended, minutes=30, what="the Processing job")


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param("gpu_build", marks=account(cheap=True, minutes=0, alone=HOST)),
        pytest.param("job", marks=account(cheap=True, minutes=10, dollars=0.20, alone=HOST, creates=JOB)),
    ],
)
def test_the_driver_of_a_build_runs_the_images_cuda(
    aws: Account, request: pytest.FixtureRequest, ask: Asked, machine: str
) -> None:
    def host() -> str:
        found = request.getfixturevalue(machine)
        if isinstance(found, Build):
            return host_of(found)
        why = found.get("FailureReason", "the job left no message")
        return str(found.get("ExitMessage", why)).partition("\n")[0]

    shown = ask(host)
    assert not any(each in shown for each in TOO_OLD)
    driver = shown.strip().partition("\n")[0].rpartition(",")[2].strip()
    if not driver[:1].isdigit():
        pytest.skip(f"nvidia-smi: {shown}")
    assert numbers(driver) >= numbers(aws.release.min_driver)


@account(cheap=True, minutes=0)
def test_a_job_reads_its_name_by_which_its_log_begins(aws: Account, job: Any, ask: Asked) -> None:
    name = aws.name("job")

    def streams() -> bool | None:
        asked = {"logGroupName": JOB_LOGS, "logStreamNamePrefix": f"{name}/"}
        try:
            return bool(aws.client("logs").describe_log_streams(**asked)["logStreams"])
        except ClientError as error:
            if not absent(error):
                raise
            return None  # the account has no such group, which the job's role may not create

    assert ask(lambda: bool(job.get("ExitMessage")), "its description has its message")
    assert ask(lambda: f'"{name}"' in job["ExitMessage"], "its configuration has its name")
    if (found := ask(streams, "it has log streams")) is None:
        pytest.skip(f"the account has no log group {JOB_LOGS}")
    assert found
