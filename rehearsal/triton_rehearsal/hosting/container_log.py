"""The log of a container in CloudWatch Logs, as the agent of a SageMaker instance writes it.

Groups and streams: https://docs.aws.amazon.com/sagemaker/latest/dg/logging-cloudwatch.html, read 2026-11-23.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

_POLL_S = 0.2
_CLOSE_LIMIT_S = 10.0
# Well below CloudWatch's limits of 10,000 events and 1 MiB in a request, and 256 KiB in an event.
_READ_BYTES = 128 * 1024
_EVENTS = 5_000

_log = logging.getLogger(__name__)


class ContainerLog:
    """Sends the lines of a growing file to a log stream, in batches, until it is closed.

    It keeps at most one batch in memory. Lines that CloudWatch refuses are dropped, and after the deletion of
    the group all lines are. The file may be deleted before the log is closed.
    """

    def __init__(self, path: Path, *, logs: Any, group: str, stream: str) -> None:
        self._logs, self._group, self._stream = logs, group, stream
        self._file = path.open("rb")
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="container-log", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send the remaining lines, and stop."""
        self._closing.set()
        self._thread.join(_CLOSE_LIMIT_S)

    def _follow(self) -> None:
        with self._file as file, suppress(_GroupGoneError):
            self._call(self._logs.create_log_group)
            self._call(self._logs.create_log_stream, logStreamName=self._stream)
            rest = b""
            while True:
                last = self._closing.is_set()
                data = b""
                while data := file.read(_READ_BYTES):
                    lines, rest = _lines(rest + data)
                    self._send(lines)
                    if len(data) < _READ_BYTES:
                        break  # what came meanwhile is sent together with what comes until the next look
                if last:
                    self._send([rest])
                    return
                self._closing.wait(_POLL_S)

    def _send(self, lines: list[bytes]) -> None:
        now = int(time.time() * 1000)
        events = [
            {"timestamp": now, "message": text}
            for line in lines
            if (text := line.decode(errors="replace").rstrip())
        ]
        for start in range(0, len(events), _EVENTS):
            part = events[start : start + _EVENTS]
            self._call(self._logs.put_log_events, logStreamName=self._stream, logEvents=part)

    def _call(self, call: Callable[..., object], **arguments: Any) -> None:
        try:
            call(logGroupName=self._group, **arguments)
        except (BotoCoreError, ClientError) as error:
            code = error.response["Error"]["Code"] if isinstance(error, ClientError) else ""
            if code == "ResourceNotFoundException":
                raise _GroupGoneError from error
            if code != "ResourceAlreadyExistsException":
                _log.debug("%s: %s", self._group, error)


def may_log(iam: Any, role: str) -> bool:
    """Return True if a role may call CreateLogGroup, with which the agent begins, or is unknown."""
    name = role.rpartition("/")[2]
    try:
        return any(
            fnmatchcase("logs:CreateLogGroup", action)
            for document in _documents(iam, name)
            for statement in _listed(document["Statement"])
            if statement["Effect"] == "Allow"
            for action in _listed(statement.get("Action", []))
        )
    except ClientError:
        return True


def _documents(iam: Any, role: str) -> Iterator[Any]:
    for name in iam.list_role_policies(RoleName=role)["PolicyNames"]:
        yield iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
    for attached in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]:
        policy = iam.get_policy(PolicyArn=attached["PolicyArn"])["Policy"]
        version = iam.get_policy_version(
            PolicyArn=attached["PolicyArn"], VersionId=policy["DefaultVersionId"]
        )
        yield version["PolicyVersion"]["Document"]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


class _GroupGoneError(Exception):
    """The log group or the stream was deleted."""


def _lines(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the lines of data, and the unfinished one after them, which is cut if it is long."""
    *lines, rest = data.split(b"\n")
    if len(rest) >= _READ_BYTES:
        return [*lines, rest[:_READ_BYTES]], rest[_READ_BYTES:]
    return lines, rest
