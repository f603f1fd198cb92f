"""The numbers of auto scaling are numbers, known where others are computed from them."""

from __future__ import annotations

import math

from triton_models.base.errors import Problem

RULE = "scaling-number"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/autoscaling/application/APIReference/API_Operations.html"


def is_number(value: object, *, whole: bool = False) -> bool:
    """Whether a value is a finite number, and an integer if asked. True and False are not numbers."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) and not (whole and isinstance(value, float))


def scaling_number(
    value: object, *, deferred: bool, whole: bool = False, name: str, where: str
) -> Problem | None:
    """The problem with a value that should be a number.

    Args:
        value: What was given.
        deferred: Whether it is known only when the stack is deployed.
        whole: Whether only an integer will do.
        name: What it is called.
        where: What the problem is reported for.
    """
    if deferred or is_number(value, whole=whole):
        return None
    kind = "an integer" if whole else "a finite number"
    return Problem(
        what=f"{name} is {value!r}",
        where=where,
        expected=kind,
        why="Application Auto Scaling takes nothing else, and would say so only at deployment",
        fix=f"give {kind}{_instead(value)}",
        rule=RULE,
    )


def _instead(value: object) -> str:
    """What to do about a value that is no such number."""
    if isinstance(value, bool):
        return ": True and False are none"
    if isinstance(value, str):
        return ", without quotes"
    if isinstance(value, float) and math.isfinite(value):
        return f", such as {math.ceil(value)}"
    return ""


def scaling_number_now(*, deferred: bool, name: str, where: str) -> Problem | None:
    """The problem with a number that others are computed from.

    Args:
        deferred: Whether it is known only when the stack is deployed.
        name: What it is called.
        where: What the problem is reported for.
    """
    if not deferred:
        return None
    return Problem(
        what=f"{name} is known only when the stack is deployed",
        where=where,
        expected="a number",
        why="what Application Auto Scaling takes is computed from it at synthesis",
        fix="give the number itself, from context instead of a CloudFormation parameter",
        rule=RULE,
    )
