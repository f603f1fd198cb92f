"""The records of CodeBuild's builds, and what runs them."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

# The thread that runs a build writes it, and the threads that answer the API read it.
LOCK = threading.RLock()
ONE_ENDED = threading.Condition(LOCK)


class BuildRecord:
    """The record of a build, to which the runner writes its progress.

    Calls after the end of the build have no effect: it may have been stopped.

    Args:
        build: moto's build.
    """

    def __init__(self, build: dict[str, Any]) -> None:
        self._build = build

    @property
    def id(self) -> str:
        """The id that StartBuild returned."""
        return str(self._build["id"])

    @property
    def complete(self) -> bool:
        """True if the build has ended."""
        return bool(self._build["buildComplete"])

    def shown(self) -> dict[str, Any]:
        """Return the build in its current state, as the API shows it."""
        with LOCK:
            return copy.deepcopy(self._build)

    def logs_to(self, *, group: str, stream: str, arn: str) -> None:
        """Set the location of the build's log in CloudWatch."""
        with LOCK:
            logs = {"groupName": group, "streamName": stream, "cloudWatchLogsArn": arn}
            self._build["logs"] = {**self._build.get("logs", {}), **logs}

    def exports(self, variables: Mapping[str, str]) -> None:
        """Set the variables that the buildspec exports."""
        with LOCK:
            shown = [{"name": name, "value": value} for name, value in variables.items()]
            self._build["exportedEnvironmentVariables"] = shown

    def enter(self, phase: str) -> None:
        """Begin a phase. A previous phase that was not left has succeeded."""
        with LOCK:
            if not self.complete:
                self._close("SUCCEEDED")
                self._build["phases"].append({"phaseType": phase, "startTime": time.time()})
                self._build["currentPhase"] = phase

    def leave(self, status: str, *, code: str = "", message: str = "") -> None:
        """End the phase.

        Args:
            status: The phase's status, in CodeBuild's words for a build.
            code: The error code, such as COMMAND_EXECUTION_ERROR; empty without an error.
            message: CodeBuild's message for the error.
        """
        with LOCK:
            if not self.complete:
                self._close(status, code=code, message=message)

    def finish(self, status: str, *, phases: Sequence[Mapping[str, Any]] = ()) -> None:
        """End the build.

        Args:
            status: SUCCEEDED, FAILED, FAULT, TIMED_OUT or STOPPED.
            phases: The phases that ran, as the API shows them, if they were not entered one by one.
        """
        with LOCK:
            if self.complete:
                return
            cut_short = status not in ("SUCCEEDED", "FAILED")
            self._close(status if cut_short else "SUCCEEDED")
            now = time.time()
            self._build["phases"] += [dict(phase) for phase in phases]
            self._build["phases"].append({"phaseType": "COMPLETED", "startTime": now})
            self._build |= {
                "buildStatus": status,
                "buildComplete": True,
                "currentPhase": "COMPLETED",
                "endTime": now,
            }
            ONE_ENDED.notify_all()

    def _close(self, status: str, *, code: str = "", message: str = "") -> None:
        phase = self._build["phases"][-1]
        if "phaseStatus" in phase:
            return
        now = time.time()
        phase |= {
            "phaseStatus": status,
            "endTime": now,
            "durationInSeconds": int(now - phase["startTime"]),
            "contexts": [{"statusCode": code, "message": message}],
        }


class BuildRunner(Protocol):
    """Runs builds."""

    def start(self, record: BuildRecord) -> None:
        """Run a build, now or when capacity is free. Returns at once."""

    def stop(self, build_id: str) -> None:
        """End a build that is marked as stopped."""
