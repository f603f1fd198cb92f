"""The range that auto scaling may move in is a range, and starts above zero."""

from __future__ import annotations

from triton_models.errors import Problem

RULE = "capacity-range"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-zero-instances.html"


def capacity(minimum: float | None, maximum: float | None, *, where: str) -> Problem | None:
    """The problem with scaling between these numbers of instances; None is a number not known yet."""
    if minimum is not None and minimum < 1:
        return Problem(
            what=f"the smallest capacity is {minimum}",
            where=where,
            expected="1 or more",
            why="an endpoint's variant cannot scale to zero; only inference components can",
            fix="set the minimum to 1",
            rule=RULE,
        )
    if minimum is not None and maximum is not None and minimum > maximum:
        return Problem(
            what=f"the smallest capacity {minimum} is above the largest {maximum}",
            where=where,
            expected="a minimum that is at most the maximum",
            why="Application Auto Scaling refuses the target, after the endpoint has been created",
            fix=f"set the maximum to {minimum} or more",
            rule=RULE,
        )
    return None
