"""The steps of a step scaling policy say one thing for each value of the metric, and change something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triton_models.errors import Problem

RULE = "scaling-steps"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/autoscaling/application/userguide/step-scaling-policy-overview.html"

EXACT = "ExactCapacity"


def scaling_steps(
    bounds: Sequence[float], changes: Sequence[float | None], *, grows: bool, adjustment: str, where: str
) -> Iterator[Problem]:
    """The problems with steps.

    Args:
        bounds: Where each step begins, in the metric's unit.
        changes: What each step does, in instances or percent; None is a number not known yet.
        grows: Whether a step is for values at and above its bound (True), or at and below it.
        adjustment: Application Auto Scaling's word for what a change is.
        where: What the problem is told about.
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
        if change is not None and not _fits(change, grows=grows, exact=adjustment == EXACT):
            yield _misfit(bound, change, grows=grows, exact=adjustment == EXACT, where=where)


def _fits(change: float, *, grows: bool, exact: bool) -> bool:
    if exact:
        return change >= 1
    return change > 0 if grows else change < 0


def _misfit(bound: float, change: float, *, grows: bool, exact: bool, where: str) -> Problem:
    if exact:
        return Problem(
            what=f"the step at {bound:g} sets the fleet to {change:g} instances",
            where=where,
            expected="1 or more",
            why="an endpoint's variant cannot scale to zero; only inference components can",
            fix="set it to 1",
            rule=RULE,
        )
    return Problem(
        what=f"the step at {bound:g} changes the fleet by {change:g}",
        where=where,
        expected="more than 0 for values above" if grows else "less than 0 for values below",
        why="each policy goes one way: the further the metric is off, the more it does",
        fix="turn the sign round, or put the step into a policy of its own for the other direction",
        rule=RULE,
    )
