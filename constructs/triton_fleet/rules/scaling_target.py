"""A target that auto scaling keeps is a value that the metric can have."""

from __future__ import annotations

from triton_models.base.errors import Problem

RULE = "scaling-target-reachable"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-add-code-define.html"


def scaling_target(
    value: float | None, *, limit: float | None, where: str, per: str = "GPU"
) -> Problem | None:
    """The problem with keeping a metric at this value.

    Args:
        value: The target for one GPU, vCPU or instance; None is a number not known yet.
        limit: The most that the metric can reach for one; None if it has no bound.
        where: What the problem is reported for.
        per: What the target is given for.
    """
    if value is None or (value > 0 and (limit is None or value <= limit)):
        return None
    fix = "give the target for one instance"
    if per != "instance":
        fix = f"give the target for one {per}; it is multiplied by the number of {per}s"
    return Problem(
        what=f"the target is {value:g}",
        where=where,
        expected="more than 0" if limit is None else f"more than 0 and at most {limit:g}, for each {per}",
        why="the metric never gets there, so the fleet would only grow or only shrink",
        fix=fix,
        rule=RULE,
    )
