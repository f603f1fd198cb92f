"""The part of a fleet that a deployment moves at a time is one that SageMaker accepts."""

from __future__ import annotations

from triton_models.errors import Problem

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
        where: What the problem is told about.
    """
    if value is None:
        return None
    expected = f"{lowest_percent:g} to {highest_percent:g} % of the fleet"
    if value < 1 or value != int(value):
        return Problem(
            what=f"the size is {value:g}",
            where=where,
            expected=f"a whole number from 1 up, {expected}",
            why="SageMaker takes no fractions of an instance or of a percent",
            fix="give a whole number",
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
        fix=_fix(by_percent=by_percent, highest_percent=highest_percent, capacity=capacity),
        rule=RULE,
    )


def _fix(*, by_percent: bool, highest_percent: float, capacity: int | None) -> str:
    if by_percent or capacity is None:
        return f"give at most {highest_percent:g} %, in the range above"
    most = int(capacity * highest_percent // 100)
    if most < 1:
        return (
            f"a fleet that may have {capacity} instance cannot be divided: use AllAtOnce, or more instances"
        )
    return f"give at most {most} instances, or a percentage, which follows the fleet's size"
