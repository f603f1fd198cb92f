"""A scheduled action sets a range that is one, at a time that comes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from triton_fleet.rules.capacity import capacity
from triton_models.base.errors import Problem

RULE = "scheduled-capacity"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScheduledAction.html"


def scheduled_range(
    bounds: tuple[float | None, float | None],
    standing: tuple[float | None, float | None],
    *,
    where: str,
    has_queue: bool = False,
) -> Problem | None:
    """The problem with the range that an action leaves behind.

    Args:
        bounds: The minimum and the maximum that the action sets; None is not set, or not known yet.
        standing: Those of the scaling, which go on to hold for what the action does not set.
        where: What the problem is reported for.
        has_queue: Whether requests wait in a queue while there is no instance.
    """
    minimum, maximum = (
        given if given is not None else kept for given, kept in zip(bounds, standing, strict=True)
    )
    return capacity(minimum, maximum, where=where, has_queue=has_queue)


def scheduled_something(*, sets_any: bool, where: str) -> Problem | None:
    """The problem with an action that sets neither bound."""
    if sets_any:
        return None
    return Problem(
        what="neither min_capacity nor max_capacity is set",
        where=where,
        expected="one of them, or both",
        why="the action would come due and change nothing",
        fix="set the capacity that the fleet shall have from then on",
        rule=RULE,
    )


def scheduled_period(start: datetime | None, end: datetime | None, *, where: str) -> Iterator[Problem]:
    """The problems with the period in which an action recurs; None is open on that side."""
    naive = [moment for moment in (start, end) if moment is not None and moment.tzinfo is None]
    for moment in naive:
        yield Problem(
            what=f"{moment.isoformat()} says no time zone",
            where=where,
            expected="a datetime with tzinfo",
            why="the same hour is another moment in each time zone",
            fix=f"give datetime({moment.year}, {moment.month}, {moment.day}, ..., tzinfo=timezone.utc)",
            rule=RULE,
        )
    if start is not None and end is not None and not naive and start >= end:
        yield Problem(
            what=f"it starts at {start.isoformat()} and ends at {end.isoformat()}",
            where=where,
            expected="a start before the end",
            why="the action would never come due",
            fix="give a later end, or leave one of them out" if start == end else "exchange them",
            rule=RULE,
        )


def scheduled_zone(expression: str | None, *, zoned: bool, where: str) -> Problem | None:
    """The problem with a time zone on this schedule.

    Args:
        expression: The schedule, such as "cron(0 7 ? * MON-FRI *)"; None is one not known yet.
        zoned: Whether a time zone is set.
        where: What the problem is reported for.
    """
    if not zoned or expression is None or expression.startswith("cron("):
        return None
    return Problem(
        what=f"a time zone is set for {expression}",
        where=where,
        expected="a time zone with Schedule.cron only",
        why="a rate has no hour of the day, and Schedule.at has already turned the moment into UTC: read in "
        "another zone it would be hours off",
        fix="leave time_zone out",
        rule=RULE,
    )


def scheduled_names(names: list[str], *, where: str) -> Iterator[Problem]:
    """The problems with actions of the same name."""
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem(
            what=f"{names.count(name)} scheduled actions are named {name!r}",
            where=where,
            expected="each name once",
            why="the second takes the place of the first without a word",
            fix="name them after what they are for, such as Morning and Evening",
            rule=RULE,
        )
