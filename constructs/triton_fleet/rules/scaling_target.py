"""A target that auto scaling keeps is a value that the metric can have."""

from __future__ import annotations

from triton_models.errors import Problem

RULE = "scaling-target-reachable"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-add-code-define.html"


def scaling_target(value: float | None, *, limit: float | None, where: str) -> Problem | None:
    """The problem with keeping a metric at this value.

    Args:
        value: The target for one GPU; None is a number not known yet.
        limit: The most that the metric of one GPU can reach; None if it has no bound.
        where: What the problem is told about.
    """
    if value is None or (value > 0 and (limit is None or value <= limit)):
        return None
    return Problem(
        what=f"the target is {value:g}",
        where=where,
        expected="more than 0" if limit is None else f"more than 0 and at most {limit:g}, for each GPU",
        why="the metric never gets there, so the fleet would only grow or only shrink",
        fix="give the target for one GPU; it is multiplied by the number of GPUs",
        rule=RULE,
    )
