"""A variant is scaled once."""

from __future__ import annotations

from triton_models.base.errors import Problem

RULE = "one-scaling-a-variant"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html"


def one_scaling(resource: str, *, already: str | None, where: str) -> Problem | None:
    """The problem with scaling a variant.

    Args:
        resource: What is scaled, as Application Auto Scaling names it.
        already: Where the same is scaled already, if it is.
        where: What the problem is reported for.
    """
    if already is None:
        return None
    return Problem(
        what=f"{resource} is scaled by {already} already",
        where=where,
        expected="one scaling for each variant",
        why="registering it again overwrites the bounds of the first, and removing either removes both",
        fix="give the first one all targets, steps and schedules, or name another variant",
        rule=RULE,
    )
