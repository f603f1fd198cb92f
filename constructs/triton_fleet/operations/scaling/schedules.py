"""Scheduled scaling: another range of instances at certain times.

Source, read on 2026-11-21:
https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-scheduled-scaling.html
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from aws_cdk import TimeZone
from aws_cdk import aws_applicationautoscaling as autoscaling

from triton_fleet.operations.scaling.target import policy_name
from triton_fleet.parts.arguments.tokens import deferred, known
from triton_fleet.parts.arguments.typed import typed
from triton_models.base.checks import Check, Report

_Action = autoscaling.CfnScalableTarget.ScheduledActionProperty
_Bounds = autoscaling.CfnScalableTarget.ScalableTargetActionProperty


CAPACITY_RANGE = Check(
    id="capacity-range",
    source=(
        "2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-zero-instances.html"
        " https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html"
    ),
)
SCHEDULED_CAPACITY = Check(
    id="scheduled-capacity",
    source="2026-11-21: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScheduledAction.html",
)


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledCapacity:
    """The capacity range of a fleet from a certain time on, until another action changes it.

    An action is no period: "office hours" are two of them, one that opens and one that closes. A deployment
    that changes the scaling's own range sets that range at once, until the next action comes due.

    Attributes:
        name: Unique in its scaling.
        schedule: The times: `Schedule.cron(...)`, `Schedule.at(...)` or `Schedule.rate(...)`. A new instance
            takes minutes to serve and starts with no model loaded, so come that much earlier.
        min_capacity: The fewest instances from then on, 1 or more, and 0 or more on an asynchronous endpoint;
            None leaves it as it is.
        max_capacity: The most instances from then on; None leaves it as it is.
        time_zone: The time zone of a cron schedule, with its daylight saving time. UTC if None.
        start: Not before this moment.
        end: Not after this moment.
    """

    name: str
    schedule: autoscaling.Schedule
    min_capacity: int | None = None
    max_capacity: int | None = None
    time_zone: TimeZone | None = None
    start: datetime | None = None
    end: datetime | None = None

    def _check(self, report: Report, *, standing: tuple[float, float], has_queue: bool) -> None:
        policy_name(report, self.name)
        bounds = (self.min_capacity, self.max_capacity)
        if bounds == (None, None):
            report(
                SCHEDULED_CAPACITY,
                "neither min_capacity nor max_capacity is set",
                fix="set one of them, or both",
            )
        elif not any(map(deferred, bounds)):
            # Of a token the standing bound does not hold in its place.
            least, most = (old if new is None else new for new, old in zip(bounds, standing, strict=True))
            capacity(report, known(least), known(most), has_queue=has_queue)
        self._check_times(report)

    def _check_times(self, report: Report) -> None:
        naive = [each for each in (self.start, self.end) if each is not None and each.tzinfo is None]
        for moment in naive:
            day = f"{moment.year}, {moment.month}, {moment.day}"
            fix = f"write datetime({day}, ..., tzinfo=timezone.utc)"
            report(SCHEDULED_CAPACITY, f"{moment.isoformat()} has no time zone", fix=fix)
        if self.start and self.end and not naive and self.start >= self.end:
            report(
                SCHEDULED_CAPACITY,
                f"it starts at {self.start.isoformat()} and ends at {self.end.isoformat()}",
                why="the action would never run",
                fix="use a later end, or omit one of them",
            )
        expression = known(self.schedule.expression_string)
        if self.time_zone is not None and expression is not None and not expression.startswith("cron("):
            report(
                SCHEDULED_CAPACITY,
                f"a time zone is set for {expression}",
                why="a rate has no time of day, and Schedule.at is already in UTC",
                fix="remove time_zone",
            )

    def _render(self) -> _Action:
        return _Action(
            scheduled_action_name=self.name,
            schedule=self.schedule.expression_string,
            timezone=self.time_zone.timezone_name if self.time_zone else None,
            start_time=self.start,
            end_time=self.end,
            scalable_target_action=_Bounds(min_capacity=self.min_capacity, max_capacity=self.max_capacity),
        )


def check_schedules(
    report: Report, schedules: Sequence[ScheduledCapacity], *, standing: tuple[float, float], has_queue: bool
) -> None:
    """Check scheduled actions, one by one and together."""
    for each in schedules:
        each._check(report.at(f"{each.name[:60]}"), standing=standing, has_queue=has_queue)
    names = [each.name for each in schedules]
    for name in sorted({each for each in names if names.count(each) > 1}):
        report(
            SCHEDULED_CAPACITY,
            f"{names.count(name)} scheduled actions are named {name!r}",
            why="the second silently replaces the first",
            fix="name them after their purpose, such as Morning and Evening",
        )


def capacity(
    report: Report, minimum: float | None, maximum: float | None, *, has_queue: bool = False
) -> None:
    """Check a range of instances, of which None is known only at deployment."""
    fewest = 0 if has_queue else 1
    if minimum is not None and minimum < fewest:
        fix = f"set the minimum to {fewest} or more"
        why = "" if has_queue else "only asynchronous endpoints scale to zero"
        report(CAPACITY_RANGE, f"the minimum capacity is {minimum}", fix=fix, why=why)
    elif minimum is not None and maximum is not None and minimum > maximum:
        what = f"the minimum capacity {minimum} is above the maximum {maximum}"
        report(CAPACITY_RANGE, what, fix=f"set the maximum to {minimum} or more")
