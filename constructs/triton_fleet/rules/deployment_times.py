"""A deployment is given more time than it spends waiting, and waits no longer than SageMaker does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from triton_models.base.errors import Problem

RULE = "deployment-times"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_BlueGreenUpdatePolicy.html"

LONGEST_WAIT = 3600
"""Seconds, for each wait."""
SHORTEST_MAXIMUM = 600
"""Seconds; the least that a deployment's maximum time can be."""
LONGEST_MAXIMUM = 28_800
"""Seconds; the most that it can be."""


def deployment_times(
    *, waits: Mapping[str, float | None], maximum: float | None, total_wait: float | None, where: str
) -> Iterator[Problem]:
    """The problems with these times, in seconds; None is a time not known yet.

    Args:
        waits: Each wait by the argument's name.
        maximum: After which the deployment is given up.
        total_wait: What the waits of all steps add up to.
        where: What the problems are reported for.
    """
    for name, seconds in waits.items():
        if seconds is not None and seconds > LONGEST_WAIT:
            yield Problem(
                what=f"{name} is {seconds:g} s",
                where=where,
                expected=f"0 to {LONGEST_WAIT} s",
                why="SageMaker refuses the update, after everything else of the stack has been deployed",
                fix="wait an hour at most; a second look at alarms belongs after the deployment",
                rule=RULE,
            )
    if maximum is None:
        return
    if not SHORTEST_MAXIMUM <= maximum <= LONGEST_MAXIMUM:
        yield Problem(
            what=f"maximum_time is {maximum:g} s",
            where=where,
            expected=f"{SHORTEST_MAXIMUM} to {LONGEST_MAXIMUM} s",
            why="SageMaker refuses the update, after everything else of the stack has been deployed",
            fix="leave maximum_time out: it then follows from the waits",
            rule=RULE,
        )
    elif total_wait is not None and total_wait >= maximum:
        yield Problem(
            what=f"all waits together take {total_wait:g} s, and maximum_time is {maximum:g} s",
            where=where,
            expected="a maximum above the sum of all waits",
            why="every deployment would be given up and rolled back before its last step",
            fix="shorten the waits, move more at a time, or raise maximum_time (28800 s at most)",
            rule=RULE,
        )
