"""A number is in the range that the service accepts."""

from __future__ import annotations

from triton_models.base.errors import Problem

RULE = "number-range"
# Read on 2026-11-21: the ranges in the API models of SageMaker, CodeBuild and Application Auto Scaling.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html"


def number_range(
    value: float | None, *, least: float, most: float | None, name: str, where: str, unit: str = ""
) -> Problem | None:
    """The problem with a number.

    Args:
        value: What was given; None is a number not known yet, or none at all.
        least: The least that is taken.
        most: The most; None if it has no bound.
        name: The argument's name.
        where: What the problem is reported for.
        unit: What it is counted in, such as "s".
    """
    if value is None or (value >= least and (most is None or value <= most)):
        return None
    space = f" {unit}" if unit else ""
    expected = f"{least:g}{space} or more" if most is None else f"{least:g} to {most:g}{space}"
    return Problem(
        what=f"{name} is {value:g}{space}",
        where=where,
        expected=expected,
        why="the service refuses it, and the deployment fails part-way through",
        fix=f"give {expected}",
        rule=RULE,
    )
