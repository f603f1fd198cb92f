"""The steps of a step scaling policy say one thing for each value of the metric, and change something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triton_models.base.errors import Problem

RULE = "scaling-steps"
# Read on 2026-11-21; the second about scaling to zero.
SOURCES = (
    "https://docs.aws.amazon.com/autoscaling/application/userguide/step-scaling-policy-overview.html",
    "https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html",
)

EXACT = "ExactCapacity"


def scaling_steps(
    bounds: Sequence[float],
    changes: Sequence[float | None],
    *,
    grows: bool,
    adjustment: str,
    where: str,
    has_queue: bool = False,
) -> Iterator[Problem]:
    """The problems with steps.

    Args:
        bounds: Where each step begins, in the metric's unit.
        changes: What each step does, in instances or percent; None is a number not known yet.
        grows: Whether a step is for values at and above its bound (True), or at and below it.
        adjustment: Application Auto Scaling's word for what a change is.
        where: What the problem is reported for.
        has_queue: Whether requests wait in a queue while there is no instance: on an asynchronous endpoint.
    """
    if not bounds:
        yield Problem(
            what="no step",
            where=where,
            expected="one or more, such as Step(at=80, change=1)",
            why="a policy without a step never does anything",
            fix="give a step, or leave the policy out",
            rule=RULE,
        )
    for bound in sorted({bound for bound in bounds if bounds.count(bound) > 1}):
        yield Problem(
            what=f"{bounds.count(bound)} steps begin at {bound:g}",
            where=where,
            expected="each step at another value",
            why="Application Auto Scaling refuses steps that overlap, after the endpoint has been created",
            fix="keep one of them",
            rule=RULE,
        )
    for bound, change in zip(bounds, changes, strict=True):
        if change is None:
            continue
        if adjustment == EXACT:
            fewest = 0 if has_queue else 1
            if change < fewest:
                yield _too_few(bound, change, fewest=fewest, where=where)
        elif not (change > 0 if grows else change < 0):
            yield _wrong_way(bound, change, grows=grows, where=where)


def _too_few(bound: float, change: float, *, fewest: int, where: str) -> Problem:
    return Problem(
        what=f"the step at {bound:g} sets the fleet to {change:g} instances",
        where=where,
        expected=f"{fewest} or more",
        why="an endpoint's variant cannot scale to zero, unless it is asynchronous: nothing could answer a "
        "request"
        if fewest
        else "capacity cannot be negative",
        fix=f"set it to {fewest}",
        rule=RULE,
    )


def _wrong_way(bound: float, change: float, *, grows: bool, where: str) -> Problem:
    return Problem(
        what=f"the step at {bound:g} changes the fleet by {change:g}",
        where=where,
        expected="more than 0 for values above" if grows else "less than 0 for values below",
        why="each policy goes one way: the further the metric is off, the more it does",
        fix="turn the sign round, or put the step into a policy of its own for the other direction",
        rule=RULE,
    )
