"""Runs the builds of deployed CodeBuild projects on this machine, in the background, a few at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from triton_rehearsal.builds.container import FAULT, SUCCEEDED, TIMED_OUT, BuildContainer, failure_of
from triton_rehearsal.builds.processing_job import run_job

if TYPE_CHECKING:
    from embedded_aws import BuildRecord, EmbeddedAws
    from triton_rehearsal.builds.log import BuildLog

WITHOUT_GPU: Mapping[str, str] = MappingProxyType({"FLEET_PORTABLE": "1"})
"""Variables of every build here: without a GPU, plans are replaced by stand-ins."""

_AT_MOST = 2
_LOG_LINES_KEPT = 25
_MINUTE_S = 60.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A requested build."""

    record: BuildRecord
    container: BuildContainer
    log: BuildLog


class BuildRunner:
    """Runs every build that is started in an embedded AWS, until the runner is closed.

    A build that an SDK, a function or a state machine starts is queued, then runs through its phases. Its log
    is in CloudWatch, and it can be stopped. The runner also runs Processing jobs.

    Args:
        aws: The AWS with the projects.
        at_most: The maximum number of builds that run at a time. Others wait in order.
        lacking: Variables for features that this machine lacks; they override all others.
        minute_s: Seconds here per minute of a build's time limit.
    """

    def __init__(
        self,
        aws: EmbeddedAws,
        *,
        at_most: int = _AT_MOST,
        lacking: Mapping[str, str] = WITHOUT_GPU,
        minute_s: float = _MINUTE_S,
    ) -> None:
        self._aws = aws
        self._lacking = lacking
        self._minute_s = minute_s
        self._lock = threading.Lock()
        self._closed = False
        self._asked: dict[str, _Asked] = {}
        self._futures: dict[str, Future[None]] = {}
        self._open = ExitStack()
        self._open.enter_context(aws.run_jobs(lambda request, stop: run_job(aws, request, stop)))
        self._pool = ThreadPoolExecutor(at_most, thread_name_prefix="build")
        self._open.callback(self._pool.shutdown)
        self._open.callback(self._end_all)
        self._open.enter_context(aws.run_builds(self))

    def start(self, record: BuildRecord) -> None:
        """Queue a build. Returns at once."""
        from triton_rehearsal.builds.log import BuildLog

        log = BuildLog(record, account=self._aws.account, region=self._aws.region)
        container = BuildContainer(self._aws, record, log, lacking=self._lacking)
        asked = _Asked(record=record, container=container, log=log)
        with self._lock:
            if not self._closed:
                self._asked[record.id] = asked
                self._futures[record.id] = self._pool.submit(self._run, asked)

    def stop(self, build_id: str) -> None:
        """End a build, queued or running."""
        with self._lock:
            asked = self._asked.get(build_id)
        if asked is not None:
            asked.container.interrupt("STOPPED")

    def run(
        self,
        *,
        project: str,
        overrides: Mapping[str, str],
        on_line: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Start a build of a deployed project and wait for its end.

        Args:
            project: The project's name.
            overrides: Environment variables that override the project's, in StartBuild's form.
            on_line: Called with each line that the build prints.

        Raises:
            FleetError: A command failed. The error has the end of the log.
        """
        started: dict[str, Any] = self._aws.client("codebuild").start_build(
            projectName=project,
            environmentVariablesOverride=[
                {"name": name, "value": value} for name, value in overrides.items()
            ],
        )["build"]
        self.wait(started["id"], on_line=on_line)

    def of(self, project: str) -> list[str]:
        """Return the ids of a project's builds, oldest first."""
        with self._lock:
            return [found for found in self._asked if found.rpartition(":")[0] == project]

    def wait(self, build_id: str, *, on_line: Callable[[str], None] = lambda line: None) -> None:
        """Wait for the end of a build.

        Raises:
            FleetError: A command failed. The error has the end of the log.
        """
        with self._lock:
            asked, future = self._asked[build_id], self._futures[build_id]
        asked.log.follow(on_line)
        future.result()
        shown = asked.record.shown()
        if shown["buildStatus"] != SUCCEEDED:
            raise failure_of(asked.log, asked.container, shown, lines=_LOG_LINES_KEPT)

    def _run(self, asked: _Asked) -> None:
        record = asked.record
        if record.complete:  # stopped while queued
            return
        limit = float(record.shown().get("timeoutInMinutes", 60)) * self._minute_s
        timer = threading.Timer(limit, asked.container.interrupt, (TIMED_OUT,))
        timer.daemon = True
        timer.start()
        try:
            asked.container.run()
        except Exception as error:  # noqa: BLE001 -- a build that cannot be run has failed
            _log.exception("the build %s could not be run", record.id)
            record.leave(FAULT, code="INTERNAL_SERVICE_ERROR", message=str(error))
            record.finish(FAULT)
        finally:
            timer.cancel()

    def _end_all(self) -> None:
        with self._lock:
            self._closed = True
            all_asked = list(self._asked.values())
        for asked in all_asked:
            if not asked.record.complete:
                asked.container.interrupt("STOPPED")

    def close(self) -> None:
        """Stop every build and start no more."""
        self._open.close()

    def __enter__(self) -> BuildRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
