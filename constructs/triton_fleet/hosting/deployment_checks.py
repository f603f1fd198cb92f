"""Checks of deployments: their sizes, times and alarms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from triton_models.base.checks import Check
from triton_models.base.errors import Problem

# The pages of canary, linear step and rolling batch all have these bounds.
DEPLOYMENT_PORTION = Check(
    id="deployment-portion",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_RollingUpdatePolicy.html",
)
"""The part of a fleet that a deployment moves at a time is one that SageMaker accepts."""


def deployment_portion(
    value: float | None,
    *,
    by_percent: bool,
    lowest_percent: float,
    highest_percent: float,
    capacity: int | None,
    where: str,
) -> Iterator[Problem]:
    """The problem with moving this much of a fleet at a time.

    Args:
        value: Percent of the fleet, or a number of instances; None if it is known only at deployment.
        by_percent: True for a percentage, False for a number of instances.
        lowest_percent: The least that SageMaker accepts, of all instances.
        highest_percent: The most.
        capacity: The fewest instances that the fleet has; None if it is known only at deployment.
        where: The place that the problem names.
    """
    if value is None:
        return
    expected = f"{lowest_percent:g} to {highest_percent:g} % of the fleet"
    fix = f"give {lowest_percent:g} to {highest_percent:g} %, an integer"
    if not by_percent:
        fix = _instances(lowest_percent, highest_percent, capacity) if capacity else "give 1 instance or more"
    whole = float(value).is_integer()
    if value < 1 or not whole:
        yield DEPLOYMENT_PORTION.problem(
            what=f"the size is {value:g}",
            where=where,
            expected=f"an integer, 1 or more; {expected}",
            why="a deployment in steps of nothing would never end"
            if whole
            else "SageMaker does not accept fractions of an instance or of a percent",
            fix=fix,
        )
        return
    if by_percent:
        percent, given = float(value), f"{value:g} %"
    elif capacity:
        percent, given = value * 100 / capacity, f"{value:g} of {capacity} instances"
    else:
        return
    if lowest_percent <= percent <= highest_percent:
        return
    yield DEPLOYMENT_PORTION.problem(
        what=f"the size is {given}",
        where=where,
        expected=expected,
        why="SageMaker refuses the update, and the deployment fails part-way through",
        fix=fix,
    )


def _instances(lowest_percent: float, highest_percent: float, capacity: int) -> str:
    """Return the fix where a number of instances of this fleet is too small or too large."""
    least = math.ceil(capacity * lowest_percent / 100)
    most = math.floor(capacity * highest_percent / 100)
    if most < 1:
        return (
            f"use AllAtOnce, or more instances: a fleet that may have {capacity} instance cannot be divided"
        )
    amount = f"{least} to {most} instances" if least < most else f"{most} instance{'s' * (most > 1)}"
    return f"give {amount}, or a percentage, which follows the fleet's size"


DEPLOYMENT_TIMES = Check(
    id="deployment-times",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_BlueGreenUpdatePolicy.html",
)
"""The time limit of a deployment is longer than its waits, and SageMaker allows both."""

LONGEST_WAIT = 3600
"""Seconds, for each wait."""
SHORTEST_MAXIMUM = 600
"""Seconds; the least that a deployment's maximum time can be."""
LONGEST_MAXIMUM = 28_800
"""Seconds; the most that it can be."""


def deployment_times(
    *, waits: Mapping[str, float | None], maximum: float | None, total_wait: float | None, where: str
) -> Iterator[Problem]:
    """The problems with these times, in seconds; None if it is known only at deployment.

    Args:
        waits: Each wait by the argument's name.
        maximum: After which the deployment is given up.
        total_wait: The sum of all waits.
        where: The place that the problems name.
    """
    for name, seconds in waits.items():
        if seconds is not None and seconds > LONGEST_WAIT:
            yield DEPLOYMENT_TIMES.problem(
                what=f"{name} is {seconds:g} s",
                where=where,
                expected=f"0 to {LONGEST_WAIT} s",
                why="SageMaker refuses the update, and the deployment fails part-way through",
                fix="wait an hour at most",
            )
    if maximum is None:
        return
    if not SHORTEST_MAXIMUM <= maximum <= LONGEST_MAXIMUM:
        yield DEPLOYMENT_TIMES.problem(
            what=f"maximum_time is {maximum:g} s",
            where=where,
            expected=f"{SHORTEST_MAXIMUM} to {LONGEST_MAXIMUM} s",
            why="SageMaker refuses the update, and the deployment fails part-way through",
            fix="remove maximum_time: it is then derived from the waits",
        )
    elif total_wait is not None and total_wait >= maximum:
        yield DEPLOYMENT_TIMES.problem(
            what=f"maximum_time is {maximum:g} s, and the waits add up to {total_wait:g} s",
            where=where,
            expected="a maximum_time longer than all waits together",
            why="every deployment would be rolled back before its last step",
            fix=f"shorten the waits, use larger steps, or raise maximum_time ({LONGEST_MAXIMUM} s at most)",
        )


ROLLBACK_ALARMS = Check(
    id="rollback-alarms",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AutoRollbackConfig.html",
)
"""Rollback alarms belong to a deployment, which has at most ten, each named once."""

MOST_ROLLBACK_ALARMS = 10
"""Alarms in one deployment."""


def rollback_alarms(names: Sequence[str], *, has_deployment: bool, where: str) -> Iterator[Problem]:
    """The problems with rolling back on these alarms.

    Args:
        names: The alarms' names.
        has_deployment: True if the endpoint has a deployment strategy.
        where: The place that the problems name.
    """
    if len(names) > MOST_ROLLBACK_ALARMS:
        yield ROLLBACK_ALARMS.problem(
            what=f"{len(names)} rollback alarms",
            where=where,
            expected=f"at most {MOST_ROLLBACK_ALARMS}",
            why="SageMaker refuses the endpoint",
            fix="watch several metrics in the expression of one alarm",
        )
    for name in sorted({each for each in names if names.count(each) > 1}):
        yield ROLLBACK_ALARMS.problem(
            what=f"the alarm '{name}' is named {names.count(name)} times",
            where=where,
            expected="each alarm once",
            why=f"each mention counts towards the limit of {MOST_ROLLBACK_ALARMS}",
            fix="keep one of them",
        )
    if names and not has_deployment:
        yield ROLLBACK_ALARMS.problem(
            what=f"{len(names)} rollback alarm{'s are' if len(names) > 1 else ' is'} given without a "
            "deployment",
            where=where,
            expected="a deployment, such as Rolling() or AllAtOnce()",
            why="only a deployment watches alarms and rolls back",
            fix="add a deployment, or remove the alarms",
        )


ROLLING_ONE_VARIANT = Check(
    id="rolling-one-variant",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-exclusions.html",
)
"""Only endpoints with one variant have rolling deployments."""


def rolling_one_variant(variants: int, *, where: str) -> Iterator[Problem]:
    """The problem with a rolling deployment of an endpoint that has this many variants."""
    if variants <= 1:
        return
    yield ROLLING_ONE_VARIANT.problem(
        what=f"the deployment is rolling, and the endpoint has {variants} variants",
        where=where,
        expected="one variant",
        why="SageMaker has no rolling deployments for several variants",
        fix="use Canary, Linear or AllAtOnce, or give each variant its own endpoint",
    )
