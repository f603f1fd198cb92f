"""Runs one build as a SageMaker Processing job: starts it, shows its log, and ends as it ends.

CodeBuild runs this on a machine without a GPU, with the boto3 of its own image. It is one file without a
neighbour, because the project carries it in its buildspec. It reads:

* FLEET_JOB: CreateProcessingJob's request as JSON, without the job's name and the models.
* FLEET_JOB_PREFIX: What the job's name begins with.
* FLEET_MODELS: The models to build, with spaces between.
* Every other variable that begins with FLEET_, and CODEBUILD_BUILD_ID: given to the job as they are. So are
  those that the request sets, such as addresses of weights, where a build overrides them.
"""

import json
import os
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from typing import Any

LOG_GROUP = "/aws/sagemaker/ProcessingJobs"
POLL_S = 15.0
# How late a line may show up after later ones, in milliseconds.
LATEST_MS = 60_000
_OWN = ("FLEET_JOB", "FLEET_JOB_PREFIX", "FLEET_MODELS")
_LONGEST = 256  # characters of one argument, and of one variable
_MOST_ARGUMENTS = 100


def job_request(environment: Mapping[str, str]) -> dict[str, Any]:
    """The request of this build's job.

    Raises:
        SystemExit: It would hold more than CreateProcessingJob takes.
    """
    request: dict[str, Any] = json.loads(environment["FLEET_JOB"])
    build = environment["CODEBUILD_BUILD_ID"]
    given = {name: value for name, value in environment.items() if name.startswith("FLEET_")}
    variables = {name: value for name, value in given.items() if name not in _OWN}
    request["ProcessingJobName"] = f"{environment['FLEET_JOB_PREFIX']}-{build.rpartition(':')[2]}"
    overridden = {name: environment[name] for name in request["Environment"] if name in environment}
    request["Environment"] |= overridden | variables | {"CODEBUILD_BUILD_ID": build}
    # A variable holds 256 characters, so the models are arguments, as many in each as there is room for.
    models = textwrap.wrap(
        environment["FLEET_MODELS"], _LONGEST, break_long_words=False, break_on_hyphens=False
    )
    arguments = request["AppSpecification"]["ContainerArguments"] = [
        *models,
        *request["AppSpecification"]["ContainerArguments"],
    ]
    if len(arguments) > _MOST_ARGUMENTS:
        sys.exit(f"error: {len(models) * _LONGEST} characters of model names: start builds of fewer models")
    return request


def run(request: dict[str, Any], sagemaker: Any, logs: Any, *, poll_s: float = POLL_S) -> int:
    """Start the job and stay until it has ended; 0 if it has succeeded.

    Whatever interrupts the wait stops the job, which would otherwise go on and be billed.
    """
    name = request["ProcessingJobName"]
    try:
        sagemaker.create_processing_job(**request)
    except sagemaker.exceptions.ResourceLimitExceeded as error:
        instance = request["ProcessingResources"]["ClusterConfig"]["InstanceType"]
        sys.exit(f"error: {error}\nask for more: fleet check-quotas --instance-type {instance}")
    print(f"started the Processing job {name}; its log is {LOG_GROUP}, {name}/", flush=True)  # noqa: T201
    status, since = "InProgress", int(time.time() * 1000)
    seen: dict[str, int] = {}
    try:
        while True:
            job = sagemaker.describe_processing_job(ProcessingJobName=name)
            status = job["ProcessingJobStatus"]
            for event in _new_events(logs, name, since, seen):
                print(event, flush=True)  # noqa: T201
            if status not in ("InProgress", "Stopping"):
                break
            time.sleep(poll_s)
    finally:
        if status == "InProgress":
            sagemaker.stop_processing_job(ProcessingJobName=name)
    print(f"the Processing job {name}: {status}", flush=True)  # noqa: T201
    for reason in ("FailureReason", "ExitMessage"):
        if job.get(reason):
            print(job[reason], flush=True)  # noqa: T201
    return 0 if status == "Completed" else 1


def _new_events(logs: Any, name: str, since: int, seen: dict[str, int]) -> Iterator[str]:
    """The lines of the job's log that were not shown yet; none before the job has written one.

    Each page is paid for, so a long log is not read from its beginning every time.
    """
    begin = max(since, max(seen.values(), default=0) - LATEST_MS)
    pages = logs.get_paginator("filter_log_events").paginate(
        logGroupName=LOG_GROUP, logStreamNamePrefix=f"{name}/", startTime=begin
    )
    try:
        for event in (event for page in pages for event in page["events"]):
            if event["eventId"] not in seen:
                seen[event["eventId"]] = event["timestamp"]
                yield event["message"]
    except logs.exceptions.ResourceNotFoundException:
        return


if __name__ == "__main__":
    import signal

    import boto3

    # CodeBuild ends what it stops with SIGTERM, which would pass by the `finally` above.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("error: the build was stopped"))
    sys.exit(run(job_request(os.environ), boto3.client("sagemaker"), boto3.client("logs")))
