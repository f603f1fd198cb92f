"""Checks of capacities: the range, its schedule, and the steps within it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from triton_models.base.checks import Check
from triton_models.base.errors import Problem

CAPACITY_RANGE = Check(
    id="capacity-range",
    source=(
        "2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-zero-instances.html"
        " https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html"
    ),
)
"""The range of auto scaling is valid, and starts above zero."""


def capacity(
    minimum: float | None, maximum: float | None, *, where: str, has_queue: bool = False
) -> Iterator[Problem]:
    """The problem with scaling between these numbers of instances; None if it is known only at deployment.

    Args:
        minimum: The fewest instances.
        maximum: The most.
        where: The place that the problem names.
        has_queue: True if requests wait in a queue while there is no instance: on an asynchronous endpoint.
    """
    fewest = 0 if has_queue else 1
    if minimum is not None and minimum < fewest:
        yield CAPACITY_RANGE.problem(
            what=f"the minimum capacity is {minimum}",
            where=where,
            expected=f"{fewest} or more",
            why="capacity cannot be negative" if has_queue else "only asynchronous endpoints scale to zero",
            fix=f"set the minimum to {fewest}",
        )
        return
    if minimum is not None and maximum is not None and minimum > maximum:
        yield CAPACITY_RANGE.problem(
            what=f"the minimum capacity {minimum} is above the maximum {maximum}",
            where=where,
            expected="a minimum that is at most the maximum",
            why="Application Auto Scaling refuses it, and the deployment fails part-way through",
            fix=f"set the maximum to {minimum} or more",
        )
        return


SCHEDULED_CAPACITY = Check(
    id="scheduled-capacity",
    source="2026-11-21: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScheduledAction.html",
)
"""A scheduled action sets a valid range and is due at least once."""


def scheduled_range(
    bounds: tuple[float | None, float | None],
    standing: tuple[float | None, float | None],
    *,
    where: str,
    has_queue: bool = False,
) -> Iterator[Problem]:
    """The problem with the range that an action leaves behind.

    Args:
        bounds: The minimum and the maximum that the action sets; None is not set, or not known yet.
        standing: Those of the scaling, which go on to hold for what the action does not set.
        where: The place that the problem names.
        has_queue: True if requests wait in a queue while there is no instance.
    """
    minimum, maximum = (
        given if given is not None else kept for given, kept in zip(bounds, standing, strict=True)
    )
    yield from capacity(minimum, maximum, where=where, has_queue=has_queue)


def scheduled_something(*, sets_any: bool, where: str) -> Iterator[Problem]:
    """The problem with an action that sets neither bound."""
    if sets_any:
        return
    yield SCHEDULED_CAPACITY.problem(
        what="neither min_capacity nor max_capacity is set",
        where=where,
        expected="one of them, or both",
        why="the action would change nothing",
        fix="set the capacity of the fleet from then on",
    )


def scheduled_period(start: datetime | None, end: datetime | None, *, where: str) -> Iterator[Problem]:
    """The problems with the period in which an action recurs; None is open on that side."""
    naive = [moment for moment in (start, end) if moment is not None and moment.tzinfo is None]
    for moment in naive:
        yield SCHEDULED_CAPACITY.problem(
            what=f"{moment.isoformat()} has no time zone",
            where=where,
            expected="a datetime with tzinfo",
            why="an hour is a different moment in each time zone",
            fix=f"write datetime({moment.year}, {moment.month}, {moment.day}, ..., tzinfo=timezone.utc)",
        )
    if start is not None and end is not None and not naive and start >= end:
        yield SCHEDULED_CAPACITY.problem(
            what=f"it starts at {start.isoformat()} and ends at {end.isoformat()}",
            where=where,
            expected="a start before the end",
            why="the action would never run",
            fix="use a later end, or omit one of them" if start == end else "swap them",
        )


def scheduled_zone(expression: str | None, *, zoned: bool, where: str) -> Iterator[Problem]:
    """The problem with a time zone on this schedule.

    Args:
        expression: The schedule, such as "cron(0 7 ? * MON-FRI *)"; None if it is known only at deployment.
        zoned: True if a time zone is set.
        where: The place that the problem names.
    """
    if not zoned or expression is None or expression.startswith("cron("):
        return
    yield SCHEDULED_CAPACITY.problem(
        what=f"a time zone is set for {expression}",
        where=where,
        expected="a time zone with Schedule.cron only",
        why="a rate has no time of day, and Schedule.at is already in UTC",
        fix="remove time_zone",
    )


def scheduled_names(names: list[str], *, where: str) -> Iterator[Problem]:
    """The problems with actions of the same name."""
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield SCHEDULED_CAPACITY.problem(
            what=f"{names.count(name)} scheduled actions are named {name!r}",
            where=where,
            expected="each name once",
            why="the second silently replaces the first",
            fix="name them after their purpose, such as Morning and Evening",
        )


# The second about scaling to zero.
SCALING_STEPS = Check(
    id="scaling-steps",
    source=(
        "2026-11-21: https://docs.aws.amazon.com/autoscaling/application/userguide/step-scaling-policy-overview.html"
        " https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html"
    ),
)
"""The steps of a policy do not overlap, and each changes something."""

EXACT = "ExactCapacity"


def scaling_steps(
    bounds: Sequence[float],
    changes: Sequence[float | None],
    *,
    grows: bool,
    adjustment: str,
    where: str,
    has_queue: bool = False,
) -> Iterator[Problem]:
    """The problems with steps.

    Args:
        bounds: The start of each step, in the metric's unit.
        changes: The change of each step, in instances or percent; None if it is known only at deployment.
        grows: True if a step is for values at and above its bound, False if at and below it.
        adjustment: Application Auto Scaling's word for what a change is.
        where: The place that the problem names.
        has_queue: True if requests wait in a queue while there is no instance: on an asynchronous endpoint.
    """
    if not bounds:
        yield SCALING_STEPS.problem(
            what="no step",
            where=where,
            expected="one or more, such as ScalingStep(at=80, change=1)",
            why="a policy without a step never does anything",
            fix="give a step, or leave the policy out",
        )
    for bound in sorted({bound for bound in bounds if bounds.count(bound) > 1}):
        yield SCALING_STEPS.problem(
            what=f"{bounds.count(bound)} steps begin at {bound:g}",
            where=where,
            expected="each step at another value",
            why="Application Auto Scaling refuses steps that overlap, after the endpoint has been created",
            fix="keep one of them",
        )
    for bound, change in zip(bounds, changes, strict=True):
        if change is None:
            continue
        if adjustment == EXACT:
            fewest = 0 if has_queue else 1
            if change < fewest:
                yield _too_few(bound, change, fewest=fewest, where=where)
        elif not (change > 0 if grows else change < 0):
            yield _wrong_way(bound, change, grows=grows, where=where)


def _too_few(bound: float, change: float, *, fewest: int, where: str) -> Problem:
    return SCALING_STEPS.problem(
        what=f"the step at {bound:g} sets the fleet to {change:g} instances",
        where=where,
        expected=f"{fewest} or more",
        why="only asynchronous endpoints scale to zero" if fewest else "capacity cannot be negative",
        fix=f"set it to {fewest}",
    )


def _wrong_way(bound: float, change: float, *, grows: bool, where: str) -> Problem:
    return SCALING_STEPS.problem(
        what=f"the step at {bound:g} changes the fleet by {change:g}",
        where=where,
        expected="more than 0 for values above" if grows else "less than 0 for values below",
        why="a policy only adds instances, or only removes them",
        fix="reverse the sign, or put the step into a separate policy for the other direction",
    )
