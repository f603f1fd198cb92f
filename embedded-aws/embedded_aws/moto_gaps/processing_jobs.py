"""SageMaker Processing jobs.

moto's gaps:
- A job is Completed at once, and nothing runs. Here the connected runner runs it, and it is InProgress until
  it ends. A DescribeProcessingJob waits for the end, for at most 40 seconds.
- StopProcessingJob and the time limit have no effect. Here both end the run, and the job is Stopped.
- Environment and ProcessingResources are lost.
- It lacks DeleteProcessingJob.
- A second job with the same name replaces the first. AWS refuses it.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.sagemaker.exceptions import ResourceInUseException
from moto.sagemaker.models import FakeProcessingJob
from moto.sagemaker.responses import SageMakerResponse

from embedded_aws.moto_gaps import patch

JobRunner = Callable[[Mapping[str, Any], threading.Event], str | None]
"""Runs the job of a CreateProcessingJob request until the event is set. Returns a failure reason or None."""


_LONGEST_LOOK_S = 40.0  # botocore stops waiting for an answer after 60
_LONGEST_RUN_S = 86400.0  # for a request without StoppingCondition
_runner: JobRunner | None = None
# The threads of running jobs, and the events that stop them.
_running: dict[str, tuple[threading.Thread, threading.Event]] = {}
_moto_create = SageMakerResponse.create_processing_job
_moto_describe = SageMakerResponse.describe_processing_job
_moto_stop = SageMakerResponse.stop_processing_job


@contextlib.contextmanager
def hosted(runner: JobRunner) -> Iterator[None]:
    global _runner  # noqa: PLW0603 -- moto's state is per process too
    _runner = runner
    try:
        yield
    finally:
        _runner = None
        for thread, stop in list(_running.values()):
            stop.set()
            thread.join()
        _running.clear()


@patch.replaces(SageMakerResponse, "create_processing_job")
def _create(self: SageMakerResponse) -> ActionResult:
    request = json.loads(self.body)
    name = request["ProcessingJobName"]
    jobs = self.sagemaker_backend.processing_jobs
    if name in jobs:
        msg = f"Job name must be unique within an AWS account and region, and a job {name} exists"
        raise ResourceInUseException(msg)
    result: ActionResult = _moto_create(self)
    job: Any = jobs[name]
    job.environment = request.get("Environment", {})
    job.processing_resources = request["ProcessingResources"]
    if _runner is not None:
        job.processing_job_status = "InProgress"
        stop = threading.Event()
        thread = threading.Thread(target=_run, args=(_runner, request, job, stop), daemon=True)
        _running[name] = (thread, stop)
        thread.start()
    return result


def _run(
    runner: JobRunner, request: Mapping[str, Any], job: FakeProcessingJob, stop: threading.Event
) -> None:
    longest = float(request.get("StoppingCondition", {}).get("MaxRuntimeInSeconds", _LONGEST_RUN_S))
    limit = threading.Timer(longest, stop.set)
    limit.daemon = True
    limit.start()
    try:
        failure = runner(request, stop)
    except Exception as error:  # noqa: BLE001 -- a job that cannot be run has failed
        failure = f"InternalServerError: {error}"
    finally:
        limit.cancel()
    ended: Any = job
    ended.processing_end_time = utcnow()
    if stop.is_set():
        ended.processing_job_status = "Stopped"
        return
    if failure is not None:
        ended.failure_reason = failure
    ended.processing_job_status = "Completed" if failure is None else "Failed"


@patch.replaces(SageMakerResponse, "describe_processing_job")
def _describe(self: SageMakerResponse) -> ActionResult:
    running = _running.get(self._get_param("ProcessingJobName"))
    if running is not None:
        running[0].join(_LONGEST_LOOK_S)
    result: ActionResult = _moto_describe(self)
    return result


@patch.replaces(SageMakerResponse, "stop_processing_job")
def _stop(self: SageMakerResponse) -> ActionResult:
    running = _running.get(self._get_param("ProcessingJobName"))
    if running is None:  # without a runner
        result: ActionResult = _moto_stop(self)
        return result
    running[1].set()
    return ActionResult({})


@patch.adds(SageMakerResponse, "delete_processing_job")
def _delete(self: SageMakerResponse) -> ActionResult:
    self.sagemaker_backend.processing_jobs.pop(self._get_param("ProcessingJobName"), None)
    return ActionResult({})
