"""Scheduled scaling: another range of instances at certain times.

Source, read on 2026-11-21:
https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-scheduled-scaling.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from aws_cdk import TimeZone
from aws_cdk import aws_applicationautoscaling as autoscaling

from triton_fleet.arguments.tokens import deferred, known
from triton_fleet.arguments.typed import typed
from triton_fleet.scaling.capacity_checks import (
    scheduled_names,
    scheduled_period,
    scheduled_range,
    scheduled_something,
    scheduled_zone,
)
from triton_fleet.scaling.checks import is_number, scaling_number
from triton_models.base.errors import Problem

_Action = autoscaling.CfnScalableTarget.ScheduledActionProperty
_Bounds = autoscaling.CfnScalableTarget.ScalableTargetActionProperty


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledCapacity:
    """The capacity range of a fleet from a certain time on, until another action changes it.

    An action is no period: "office hours" are two of them, one that opens and one that closes. A deployment
    that changes the scaling's own range sets that range at once, until the next action comes due.

    Attributes:
        name: One of a kind in its scaling.
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

    def _problems(
        self, *, standing: tuple[int, int], where: str, has_queue: bool = False
    ) -> Iterator[Problem]:
        """Yield the problems between the values.

        Args:
            standing: The minimum and the maximum of the scaling itself.
            where: The place that the problems name.
            has_queue: True if the endpoint is asynchronous.
        """
        where = f"{self.name}, {where}"
        bounds = (self.min_capacity, self.max_capacity)
        yield from scheduled_something(sets_any=bounds != (None, None), where=where)
        given = {
            name: bound
            for name, bound in zip(("min_capacity", "max_capacity"), bounds, strict=True)
            if bound is not None
        }
        later = any(map(deferred, given.values()))
        wrong = [
            problem
            for name, bound in given.items()
            for problem in scaling_number(bound, deferred=deferred(bound), whole=True, name=name, where=where)
        ]
        yield from wrong
        # A token is set, though not known: the standing bound does not hold in its place, so no report.
        if given and not later and not wrong and all(is_number(known(each)) for each in standing):
            yield from scheduled_range(bounds, standing, where=where, has_queue=has_queue)
        yield from scheduled_period(self.start, self.end, where=where)
        expression = known(self.schedule.expression_string)
        yield from scheduled_zone(expression, zoned=self.time_zone is not None, where=where)

    def _render(self) -> _Action:
        """The action as the scalable target takes it."""
        return _Action(
            scheduled_action_name=self.name,
            schedule=self.schedule.expression_string,
            timezone=self.time_zone.timezone_name if self.time_zone else None,
            start_time=self.start,
            end_time=self.end,
            scalable_target_action=_Bounds(min_capacity=self.min_capacity, max_capacity=self.max_capacity),
        )


def schedule_problems(
    schedules: Sequence[ScheduledCapacity], *, standing: tuple[int, int], where: str, has_queue: bool = False
) -> Iterator[Problem]:
    """Yield the problems with actions, one by one and together; arguments as in `problems`."""
    for each in schedules:
        yield from each._problems(standing=standing, where=where, has_queue=has_queue)
    yield from scheduled_names([each.name for each in schedules], where=where)
