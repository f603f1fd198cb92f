"""SageMaker Processing jobs.

moto's gaps:
- A job is Completed at once, and nothing runs. Here whoever is connected runs it, and it is InProgress until
  then; to look at it meanwhile takes until it has ended, or the better part of a minute.
- Environment and ProcessingResources are forgotten.
- A second job of the same name takes the place of the first. AWS refuses.
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

from rehearsal.aws.moto_gaps import mend

Runner = Callable[[Mapping[str, Any]], str | None]
"""Runs the job of a CreateProcessingJob request; returns why it failed, or None."""

_LONGEST_LOOK_S = 40.0  # botocore gives up on an answer after 60
_runner: Runner | None = None
_running: dict[str, threading.Thread] = {}
_moto_create = SageMakerResponse.create_processing_job
_moto_describe = SageMakerResponse.describe_processing_job


@contextlib.contextmanager
def hosted(runner: Runner) -> Iterator[None]:
    """Have jobs run by this; leaving waits for those that still do."""
    global _runner  # noqa: PLW0603 -- moto keeps what it has for the process
    _runner = runner
    try:
        yield
    finally:
        _runner = None
        for thread in list(_running.values()):
            thread.join()
        _running.clear()


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
        _running[name] = threading.Thread(target=_run, args=(_runner, request, job), daemon=True)
        _running[name].start()
    return result


def _run(runner: Runner, request: Mapping[str, Any], job: FakeProcessingJob) -> None:
    try:
        failure = runner(request)
    except Exception as error:  # noqa: BLE001 -- a job that cannot be run is a job that failed
        failure = f"InternalServerError: {error}"
    ended: Any = job
    ended.processing_end_time = utcnow()
    if failure is not None:
        ended.failure_reason = failure
    ended.processing_job_status = "Completed" if failure is None else "Failed"


def _describe(self: SageMakerResponse) -> ActionResult:
    thread = _running.get(self._get_param("ProcessingJobName"))
    if thread is not None:
        thread.join(_LONGEST_LOOK_S)
    result: ActionResult = _moto_describe(self)
    return result


def install() -> None:
    """Close the gaps."""
    mend.replace(SageMakerResponse, create_processing_job=_create, describe_processing_job=_describe)
