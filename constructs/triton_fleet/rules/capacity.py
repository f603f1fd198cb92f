"""The range that auto scaling may move in is a range, and starts above zero."""

from __future__ import annotations

from triton_models.base.errors import Problem

RULE = "capacity-range"
# Read on 2026-11-21.
SOURCES = (
    "https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-zero-instances.html",
    "https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html",
)


def capacity(
    minimum: float | None, maximum: float | None, *, where: str, has_queue: bool = False
) -> Problem | None:
    """The problem with scaling between these numbers of instances; None is a number not known yet.

    Args:
        minimum: The fewest instances.
        maximum: The most.
        where: What the problem is reported for.
        has_queue: Whether requests wait in a queue while there is no instance: on an asynchronous endpoint.
    """
    fewest = 0 if has_queue else 1
    if minimum is not None and minimum < fewest:
        return Problem(
            what=f"the smallest capacity is {minimum}",
            where=where,
            expected=f"{fewest} or more",
            why="capacity cannot be negative"
            if has_queue
            else "an endpoint's variant cannot scale to zero, unless it is asynchronous: nothing could "
            "answer a request",
            fix=f"set the minimum to {fewest}",
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
