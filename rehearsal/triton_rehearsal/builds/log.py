"""The log of one build: in CloudWatch, as CodeBuild writes it, and for a follower on this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from embedded_aws import BuildRecord

OnLine = Callable[[str], None]

_DISABLED = "DISABLED"


class BuildLog:
    """Collects every line of a build."""

    def __init__(self, record: BuildRecord, *, account: str, region: str) -> None:
        from moto.logs.models import logs_backends

        shown = record.shown()
        given: Mapping[str, Any] = shown["logs"]["cloudWatchLogs"]
        self._lock = threading.Lock()
        self._lines: list[str] = []
        self._followers: list[OnLine] = []
        self._logs: Any = logs_backends[account][region]
        self._group = given.get("groupName") or f"/aws/codebuild/{shown['projectName']}"
        number = record.id.rpartition(":")[2]
        self.stream = f"{given['streamName']}/{number}" if given.get("streamName") else number
        self._kept = given.get("status") != _DISABLED
        if self._kept:
            self._logs.ensure_log_group(self._group)
            self._logs.ensure_log_stream(self._group, self.stream)
            arn = f"arn:aws:logs:{region}:{account}:log-group:{self._group}:log-stream:{self.stream}"
            record.logs_to(group=self._group, stream=self.stream, arn=arn)

    def write(self, line: str) -> None:
        """Add a line that a command printed."""
        with self._lock:
            self._lines.append(line)
            followers = list(self._followers)
            self._keep(line)
        for follower in followers:
            follower(line)

    def note(self, line: str) -> None:
        """Add a line from CodeBuild itself, which only CloudWatch shows."""
        with self._lock:
            self._keep(f"[Container] {line}")

    def follow(self, on_line: OnLine) -> None:
        """Call a function with every line so far, then with each new one."""
        with self._lock:
            for line in self._lines:
                on_line(line)
            self._followers.append(on_line)

    def tail(self, lines: int) -> str:
        """Return the last lines that commands printed."""
        with self._lock:
            return "\n".join(self._lines[-lines:])

    def _keep(self, line: str) -> None:
        from moto.core.utils import unix_time_millis

        # The deletion of a stack may already have removed the group, and CloudWatch refuses empty lines.
        if self._kept and line.strip() and self._group in self._logs.groups:
            event = {"timestamp": int(unix_time_millis()), "message": line}
            self._logs.put_log_events(self._group, self.stream, [event])
