"""The part of a fleet that a deployment moves at a time is one that SageMaker accepts."""

from __future__ import annotations

import math

from triton_models.base.errors import Problem

RULE = "deployment-portion"
# Read on 2026-11-21. Canary, linear step and rolling batch each have a page; the bounds are on all of them.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_RollingUpdatePolicy.html"


def deployment_portion(
    value: float | None,
    *,
    by_percent: bool,
    lowest_percent: float,
    highest_percent: float,
    capacity: int | None,
    where: str,
) -> Problem | None:
    """The problem with moving this much of a fleet at a time.

    Args:
        value: Percent of the fleet, or a number of instances; None is a number not known yet.
        by_percent: Which of the two it is.
        lowest_percent: The least that SageMaker accepts, of all instances.
        highest_percent: The most.
        capacity: The fewest instances that the fleet has; None is a number not known yet.
        where: What the problem is reported for.
    """
    if value is None:
        return None
    expected = f"{lowest_percent:g} to {highest_percent:g} % of the fleet"
    fix = f"give {lowest_percent:g} to {highest_percent:g} %, an integer"
    if not by_percent:
        fix = _instances(lowest_percent, highest_percent, capacity) if capacity else "give 1 instance or more"
    whole = float(value).is_integer()
    if value < 1 or not whole:
        return Problem(
            what=f"the size is {value:g}",
            where=where,
            expected=f"an integer, 1 or more; {expected}",
            why="a deployment that moves nothing at a time would never end"
            if whole
            else "SageMaker takes no fractions of an instance or of a percent",
            fix=fix,
            rule=RULE,
        )
    if by_percent:
        percent, given = float(value), f"{value:g} %"
    elif capacity:
        percent, given = value * 100 / capacity, f"{value:g} of {capacity} instances"
    else:
        return None
    if lowest_percent <= percent <= highest_percent:
        return None
    return Problem(
        what=f"the size is {given}",
        where=where,
        expected=expected,
        why="SageMaker refuses the update, after everything else of the stack has been deployed",
        fix=fix,
        rule=RULE,
    )


def _instances(lowest_percent: float, highest_percent: float, capacity: int) -> str:
    """What to do where so many instances of this fleet are too few or too many."""
    least = math.ceil(capacity * lowest_percent / 100)
    most = math.floor(capacity * highest_percent / 100)
    if most < 1:
        return (
            f"a fleet that may have {capacity} instance cannot be divided: use AllAtOnce, or more instances"
        )
    amount = f"{least} to {most} instances" if least < most else f"{most} instance{'s' * (most > 1)}"
    return f"give {amount}, or a percentage, which follows the fleet's size"
