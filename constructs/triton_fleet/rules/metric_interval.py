"""Metrics are published as often as SageMaker can, and at least as often as alarms read them."""

from __future__ import annotations

from triton_models.base.errors import Problem

RULE = "metric-interval"
# Read on 2026-11-21: the intervals.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_MetricsConfig.html"

INTERVALS = (10, 30, 60)
"""Seconds. SageMaker also takes 120, 180, 240 and 300: with gaps of minutes, the alarms and targets here,
which read every minute, would take an instance for dead."""


def metric_interval(seconds: float | None, *, where: str) -> Problem | None:
    """The problem with publishing metrics at this interval; None is SageMaker's own, of a minute."""
    if seconds is None or seconds in INTERVALS:
        return None
    return Problem(
        what=f"metrics are to be published every {seconds:g} s",
        where=where,
        expected=f"every {', '.join(map(str, INTERVALS[:-1]))} or {INTERVALS[-1]} s",
        why="SageMaker takes no other interval up to a minute, and with a longer one alarms and auto "
        "scaling, which read every minute, see no instance in between",
        fix="give one of these, or leave it out for a minute",
        rule=RULE,
    )
