"""A warm-up sends its requests often enough for a canary, and not so often that it is a load."""

from __future__ import annotations

from triton_models.base.errors import Problem

RULE = "warm-up-interval"
# Read on 2026-11-21: a function lives 15 minutes, which is how long a warm-up lasts at most.
SOURCE = "https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html"

SHORTEST = 1
"""Seconds."""
LONGEST = 300
"""Seconds: three rounds in the life of a function."""


def warm_up_interval(seconds: float | None, *, where: str) -> Problem | None:
    """The problem with sending the requests at this interval; None is a time known only at deployment."""
    if seconds is not None and SHORTEST <= seconds <= LONGEST:
        return None
    given = "known only when the stack is deployed" if seconds is None else f"{seconds:g} s"
    return Problem(
        what=f"every is {given}",
        where=where,
        expected=f"{SHORTEST} to {LONGEST} s",
        why="more often is a load on a fleet that is being judged; less often, hardly a request reaches a "
        "canary before it is judged",
        fix="leave it at 15 seconds",
        rule=RULE,
    )
