"""Probes of the machines that build models: CodeBuild's and those of Processing jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from triton_models.builds.tensorrt.machine import IMAGE_TRTEXEC
from triton_models.facts.build_machines.on_demand import BUILD_MACHINES, CPU_BUILD_MACHINE
from triton_models.facts.build_machines.processing import PROCESSING_TYPES
from triton_models.probe.account import codebuild, trouble
from triton_models.probe.account.costs import CPU_BUILD, GPU_BUILD, JOB
from triton_models.probe.account.probe import AccountProbe, Steps
from triton_models.probe.account.work import Work
from triton_models.probe.verdict import UndecidedError, Verdict, decide, undecided

_QUERY = "nvidia-smi --query-gpu=name,driver_version --format=csv,noheader"
# Messages of NVIDIA's container runtime if the host's driver is older than the image requires.
_DRIVER_TOO_OLD = ("unsatisfied condition", "cuda>=", "please update your driver")
_MESSAGE = "/opt/ml/output/message"
_CONFIG = "/opt/ml/config/processingjobconfig.json"
_FIND_NAME = """grep -o '"ProcessingJobName": *"[^"]*"'"""
_JOB_LOGS = "/aws/sagemaker/ProcessingJobs"
_LOOK_MINUTES = 30.0


def _build_host(work: Work) -> Steps:
    """Start a build on CodeBuild's GPU machine that prints the driver and looks for trtexec."""
    from botocore.exceptions import ClientError

    driver, image, quota = "build-host-driver", "build-gets-gpu-and-image", "start-build-without-quota"
    machine = BUILD_MACHINES["A10G"]
    if not machine.offered_in(work.place.region):
        msg = f"CodeBuild offers no GPU on demand in {work.place.region}"
        raise UndecidedError(msg)
    commands = {"FLEET_HOST": _QUERY, "FLEET_TRTEXEC": f"ls {IMAGE_TRTEXEC}"}
    try:
        order = codebuild.Order(
            suffix="build",
            image=work.image,
            machine="LINUX_GPU_CONTAINER",
            compute=machine.compute_type,
            commands=commands,
            role=work.role(),
        )
        build = yield from codebuild.run_build(work, order)
    except ClientError as error:
        if trouble.code(error) != "AccountLimitExceededException":
            raise
        reason = trouble.reason(error)
        refused = decide(quota, f"StartBuild answers at once: {trouble.message(error)}", holds=True)
        return [undecided(driver, reason), undecided(image, reason), refused]
    has_quota = undecided(quota, "the account has a quota for GPU builds")
    if build["buildStatus"] != "SUCCEEDED":
        return [*_failed(driver, image, codebuild.said(build)), has_quota]
    found = codebuild.exported(build)
    host, trtexec = found.get("FLEET_HOST", ""), found.get("FLEET_TRTEXEC", "")
    work.observe("build-host", {"query": _QUERY}, {"host": host, "trtexec": trtexec})
    has_all = "A10G" in host and trtexec.strip() == str(IMAGE_TRTEXEC)
    seen = decide(image, f"nvidia-smi: {host!r}; trtexec: {trtexec!r}", holds=has_all)
    return [_driver(driver, host, work), seen, has_quota]


def _failed(driver: str, image: str, said: str) -> list[Verdict]:
    if any(each in said for each in _DRIVER_TOO_OLD):
        return [decide(driver, said, holds=False), undecided(image, said)]
    if "PULL_IMAGE" in said or "pull" in said.lower():
        return [undecided(driver, said), decide(image, said, holds=False)]
    reason = trouble.failure(said)
    return [undecided(driver, reason), undecided(image, reason)]


def _driver(belief: str, host: str, work: Work) -> Verdict:
    """Return the verdict on a driver, from nvidia-smi's line `name, version`."""
    version = host.strip().partition("\n")[0].rpartition(",")[2].strip()
    if not version[:1].isdigit():
        return undecided(belief, f"nvidia-smi: {host.strip()!r}")
    least = work.place.release.min_driver
    seen = f"{host.strip()}; CUDA {work.place.release.cuda} needs {least}"
    return decide(belief, seen, holds=_numbers(version) >= _numbers(least))


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


def _processing_host(work: Work) -> Steps:
    """Start a Processing job on the endpoint's GPU that prints the driver and its own name."""
    name = work.name("job")
    sagemaker, role, image = work.clients("sagemaker"), work.role(), work.image
    if work.place.instance.name not in PROCESSING_TYPES:
        msg = f"a Processing job cannot run on {work.place.instance.name}"
        raise UndecidedError(msg)
    cluster = {"InstanceType": work.place.instance.name, "InstanceCount": 1, "VolumeSizeInGB": 100}

    def make() -> None:
        sagemaker.create_processing_job(
            ProcessingJobName=name,
            RoleArn=role,
            AppSpecification={
                "ImageUri": image,
                "ContainerEntrypoint": ["/bin/sh", "-c"],
                "ContainerArguments": [f"({_QUERY}; {_FIND_NAME} {_CONFIG}; true) > {_MESSAGE} 2>&1"],
            },
            ProcessingResources={"ClusterConfig": cluster},
            StoppingCondition={"MaxRuntimeInSeconds": 900},
            Tags=work.tags,
        )

    yield from work.when_role_is_known(lambda: work.create("job", name, make))

    def ended() -> Any:
        shown = sagemaker.describe_processing_job(ProcessingJobName=name)
        return shown if shown["ProcessingJobStatus"] in {"Completed", "Failed", "Stopped"} else None

    job = yield from work.until(ended, minutes=_LOOK_MINUTES, what="the Processing job")
    return list(_of_job(work, job))


def _of_job(work: Work, job: Mapping[str, Any]) -> Iterator[Verdict]:
    """Yield the verdicts on a Processing job that has ended."""
    driver, message, log = _OF_JOBS
    said, why = job.get("ExitMessage", ""), job.get("FailureReason", "")
    host, _, config = said.partition("\n")
    work.observe("processing-host", {"query": _QUERY}, {"host": host})
    reason = trouble.failure(why or "the job left no message")
    if any(each in why for each in _DRIVER_TOO_OLD):
        yield decide(driver, why, holds=False)
    else:
        yield _driver(driver, host, work) if host else undecided(driver, reason)
    ran = bool(said) or job["ProcessingJobStatus"] == "Completed"
    yield decide(message, f"ExitMessage: {said!r}", holds=bool(said)) if ran else undecided(message, reason)
    yield _job_log(work, job["ProcessingJobName"], config) if said else undecided(log, reason)


def _job_log(work: Work, name: str, config: str) -> Verdict:
    """Return the verdict on a job's own configuration and on the names of its log streams."""
    from botocore.exceptions import ClientError

    belief, logs = "processing-job-log", work.clients("logs")
    try:
        found = logs.describe_log_streams(logGroupName=_JOB_LOGS, logStreamNamePrefix=f"{name}/")
    except ClientError as error:
        if not trouble.absent(error):
            raise
        return undecided(
            belief, f"the account has no log group {_JOB_LOGS}, which the job's role may not create"
        )
    streams = [each["logStreamName"] for each in found["logStreams"]]
    seen = f"streams {', '.join(streams) or 'none'}; {_CONFIG}: {config.strip() or 'empty'}"
    return decide(belief, seen, holds=f'"{name}"' in config and bool(streams))


def _cpu_build(work: Work) -> Steps:
    """Start a build in the image for CPUs, on CodeBuild's machine without a GPU."""
    belief, tag = "cpu-builds-in-codebuild", f"{work.place.release.image_tag}-cpu"
    order = codebuild.Order(
        suffix="cpu-build",
        image=work.image_of(tag),
        machine="LINUX_CONTAINER",
        compute=CPU_BUILD_MACHINE.compute_type,
        commands={"FLEET_PYTHON": "python3 --version"},
        role=work.role(),
    )
    build = yield from codebuild.run_build(work, order)
    why = codebuild.said(build)
    python = codebuild.exported(build).get("FLEET_PYTHON") if build["buildStatus"] == "SUCCEEDED" else None
    if python is None and "pull" not in why.lower():
        return [undecided(belief, why)]
    return [decide(belief, python or why, holds=python is not None and python.startswith("Python 3"))]


_OF_JOBS = ("processing-host-driver", "exit-message", "processing-job-log")

PROBES = (
    AccountProbe(
        id="build-host",
        what="reads the driver of CodeBuild's GPU host, in the release's image",
        decides=("build-host-driver", "build-gets-gpu-and-image", "start-build-without-quota"),
        run=_build_host,
        creates="a role, a CodeBuild project, one build",
        allowed=codebuild.BUILDS,
        minutes=10,
        pays=((GPU_BUILD, 8 / 60),),
        cheap=True,
    ),
    AccountProbe(
        id="processing-host",
        what="reads a Processing job's driver and name, in the release's image",
        decides=_OF_JOBS,
        run=_processing_host,
        creates="a role, a Processing job",
        allowed=(
            "sagemaker:CreateProcessingJob",
            "sagemaker:DescribeProcessingJob",
            "sagemaker:StopProcessingJob",
            "sagemaker:DeleteProcessingJob",
            "logs:DescribeLogStreams",
            "iam:CreateRole",
            "iam:PutRolePolicy",
            "iam:PassRole",
        ),
        minutes=10,
        pays=((JOB, 8 / 60),),
        cheap=True,
    ),
    AccountProbe(
        id="cpu-build",
        what="builds in the release's image for CPUs",
        decides=("cpu-builds-in-codebuild",),
        run=_cpu_build,
        creates="a role, a CodeBuild project, one build",
        allowed=codebuild.BUILDS,
        minutes=8,
        pays=((CPU_BUILD, 6 / 60),),
    ),
)
