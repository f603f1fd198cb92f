"""A threshold is a value that its metric can pass."""

from __future__ import annotations

from triton_models.base.errors import Problem

RULE = "alarm-threshold"
# Read on 2026-11-21: the ranges of the metrics.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html"


def alarm_threshold(
    value: float | None, *, lowest: float, below: float | None, unit: str, where: str
) -> Problem | None:
    """The problem with this threshold.

    Args:
        value: The threshold; None is a number not known yet.
        lowest: The least that makes sense.
        below: What it has to stay below; None if the metric has no bound.
        unit: What it is counted in.
        where: What the problem is reported for.
    """
    if value is None or (value >= lowest and (below is None or value < below)):
        return None
    expected = f"{lowest:g} {unit} or more" + ("" if below is None else f", and below {below:g} {unit}")
    return Problem(
        what=f"the threshold is {value:g}",
        where=where,
        expected=expected,
        why="the alarm would be in alarm always, or never whatever happens",
        fix=f"give a threshold of {expected}",
        rule=RULE,
    )
