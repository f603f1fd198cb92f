"""A deployment waits for an artifact no longer than CloudFormation waits for a custom resource."""

from __future__ import annotations

from triton_models.base.errors import Problem

RULE = "artifact-timeout"
# Read on 2026-11-21: ServiceTimeout.
SOURCE = "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref-requests.html"

SHORTEST = 60
"""Seconds; to wait for less is not to wait."""
LONGEST = 3600
"""Seconds that CloudFormation waits for a custom resource."""


def artifact_timeout(seconds: float | None, *, where: str) -> Problem | None:
    """The problem with waiting so long; None is a time that is known only at deployment."""
    if seconds is not None and SHORTEST <= seconds <= LONGEST:
        return None
    given = "known only when the stack is deployed" if seconds is None else f"{seconds:g} s"
    return Problem(
        what=f"artifact_timeout is {given}",
        where=where,
        expected=f"{SHORTEST} to {LONGEST} s",
        why="CloudFormation gives a custom resource up after an hour, and takes the time as a number",
        fix="give a longer build its time before the deployment, with artifact_timeout=None"
        if seconds is not None and seconds > LONGEST
        else "give it in minutes, such as Duration.minutes(30), or None not to wait",
        rule=RULE,
    )
