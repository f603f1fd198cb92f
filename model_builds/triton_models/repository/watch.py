"""`fleet promote --watch`, `fleet rollback --run RUN --watch`: take a run back when an alarm fires.

Before a promotion, they are read as well: an alarm that fires already says nothing about the promotion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.clock import CLOCK, Clock
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.base.outcome import live, show_problems
from triton_models.repository.endpoints import bucket_region
from triton_models.repository.manifest import some_of
from triton_models.repository.objects import Store, opened
from triton_models.repository.rollback import rollback_run

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient

WATCH = Check(id="watch", source=FROM_ARGUMENTS)
ALARM = Check(id="alarm", source="the answer of CloudWatch")

INTERVAL_S = 15.0
"""The time between two readings of the alarms."""

_MOST_NAMES = 100  # of a request to DescribeAlarms, and of its answer
PROMOTION, RUN = "fleet promote --watch", "fleet rollback --run --watch"
"""The commands that watch."""
_NAME_ALARMS = "name the alarms with --alarms, or with --endpoint an endpoint that has rollback alarms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The watch over a promotion, or over a run of a build.

    Attributes:
        alarms: The names of metric alarms and composite alarms.
        seconds: The time for which they are read.
        where: The command, for errors.
    """

    alarms: Sequence[str]
    seconds: float
    cloudwatch: CloudWatchClient
    clock: Clock = CLOCK
    where: str = PROMOTION

    def begin(self) -> None:
        """Raise an error if an alarm fires already, does not exist, or cannot be read."""
        firing, unread = self._read()
        why, fix = "nothing was promoted", "wait until it is over, or promote without --watch"
        fired = [ALARM.problem(what=each, where=self.where, why=why, fix=fix) for each in firing]
        raise_if_any([*unread, *fired])

    def follow(self, run: str, store: Store, *, by: str) -> None:
        """Read the alarms until the time is over; if one fires, take a run back.

        Raises:
            FleetError: An alarm has fired, or the alarms could not be read at the end.
        """
        until = self.clock.now() + self.seconds
        undo = f"`fleet rollback --run {run} --repository {store.url}`"
        try:
            firing, unread = self._read()
            while not firing and (left := until - self.clock.now()) > 0:
                live(f"watching {len(self.alarms)} alarms for {left:.0f} s")
                self.clock.wait(min(INTERVAL_S, left))
                firing, unread = self._read()
        except KeyboardInterrupt:
            show_problems([_ended("the watch was interrupted", undo, self.where)])
            raise
        finally:
            live("")
        if firing:
            why, fix, more = _taken_back(run, store, by=by, undo=undo)
            raise FleetError(
                [*(ALARM.problem(what=each, where=self.where, why=why, fix=fix) for each in firing), *more]
            )
        if unread:
            raise FleetError(
                [_ended("the watch is over, and the alarms could not be read", undo, self.where), *unread]
            )

    def _read(self) -> tuple[list[str], list[Problem]]:
        """Return a sentence for each alarm that fires, and why alarms could not be read."""
        from botocore.exceptions import BotoCoreError, ClientError

        found: dict[str, Any] = {}
        unread, fix = "", "use names of CloudWatch alarms in the account and region of the repository"
        try:
            for first in range(0, len(self.alarms), _MOST_NAMES):
                answer = self.cloudwatch.describe_alarms(
                    AlarmNames=self.alarms[first : first + _MOST_NAMES],
                    AlarmTypes=["MetricAlarm", "CompositeAlarm"],  # by default, only metric alarms
                    MaxRecords=_MOST_NAMES,
                )
                listed: Any = (*answer.get("MetricAlarms", ()), *answer.get("CompositeAlarms", ()))
                found |= {each["AlarmName"]: each for each in listed}
            missing = [name for name in self.alarms if name not in found]
            unread = f"unknown alarms: {', '.join(missing)}" if missing else ""
        except (ClientError, BotoCoreError) as error:
            unread = f"the alarms cannot be read: {error}"
            fix = "check the network and credentials, and allow cloudwatch:DescribeAlarms on *"
        firing = [
            f"the alarm {name!r} is in ALARM: {each.get('StateReason')}"
            for name, each in found.items()
            if each.get("StateValue") == "ALARM"
        ]
        return firing, [WATCH.problem(what=unread, where=self.where, fix=fix)] if unread else []


def watch_from_options(
    *,
    seconds: float | None,
    alarms: Sequence[str],
    endpoint: str | None,
    repository: str | None,
    where: str = PROMOTION,
) -> Watch | None:
    """Return the watch of `--watch TIME [--alarms NAME...] [--endpoint NAME]`; None without it."""
    given = bool(alarms or endpoint)
    if seconds is None and not given:
        return None
    if seconds is None or not given:
        what, fix = (
            ("no alarms are named", _NAME_ALARMS) if not given else ("no time is given", "add --watch 15m")
        )
        raise WATCH.error(what=what, where=where, fix=fix)
    import boto3.session
    from botocore.config import Config

    # A reading that hangs would delay the way back.
    config = Config(retries={"mode": "standard", "total_max_attempts": 3}, connect_timeout=5, read_timeout=10)
    with opened(repository) as store:
        session, region = boto3.session.Session(), bucket_region(store)
        names = [*alarms]
        if endpoint:
            sagemaker = session.client("sagemaker", region_name=region, config=config)
            names += _rollback_alarms(endpoint, sagemaker, where)
        cloudwatch = session.client("cloudwatch", region_name=region, config=config)
    return Watch(alarms=list(dict.fromkeys(names)), seconds=seconds, cloudwatch=cloudwatch, where=where)


def _rollback_alarms(endpoint: str, sagemaker: Any, where: str) -> list[str]:
    """Return the alarms that roll back updates of an endpoint."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        deployment = sagemaker.describe_endpoint(EndpointName=endpoint).get("LastDeploymentConfig", {})
    except (ClientError, BotoCoreError) as error:
        what, fix = f"the endpoint {endpoint!r} cannot be described", "check its name and region"
        raise WATCH.error(what=what, where=where, why=str(error), fix=fix) from None
    found = deployment.get("AutoRollbackConfiguration", {}).get("Alarms")
    if not found:
        what = f"the endpoint {endpoint!r} has no rollback alarms"
        raise WATCH.error(what=what, where=where, fix=_NAME_ALARMS)
    return [each["AlarmName"] for each in found]


def _taken_back(run: str, store: Store, *, by: str, undo: str) -> tuple[str, str, Sequence[Problem]]:
    """Take a run back; return what happened to its models, what to do, and what failed."""
    try:
        back = rollback_run(run, repository=store.url, leave_moved=True, s3=store.s3, by=by)
    except FleetError as error:
        return "the names could not go back and stay as they are", f"see below, then {undo}", error.problems
    changed = [each.model for each in back.models if each.changed]
    stay = [*back.left, *(each.model for each in back.models if not each.changed)]
    why = f"{some_of(changed)} went back in one write" if changed else "no name went back"
    more = f"; {some_of(stay)} stay: they are new, or have moved since" if stay else ""
    return why + more, "find the cause, then publish or promote again", ()


def _ended(what: str, undo: str, where: str) -> Problem:
    fix = f"check the alarms; to take them back, run {undo}"
    return WATCH.problem(what=what, where=where, why="the names stay as they are", fix=fix)
