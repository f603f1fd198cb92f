"""What is shown or alarmed with an endpoint belongs to that endpoint."""

from __future__ import annotations

from triton_models.base.errors import Problem

RULE = "same-variant"
# A scalable target is registered for one variant of one endpoint. Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html"


def same_variant(*, watched: str, given: str, what: str, where: str) -> Problem | None:
    """The problem with giving what belongs to another variant.

    Args:
        watched: Endpoint and variant that are watched.
        given: Endpoint and variant that the argument belongs to.
        what: What the argument is.
        where: What the problem is reported for.
    """
    if watched == given:
        return None
    return Problem(
        what=f"{what} of {given} given for {watched}",
        where=where,
        expected=f"{what} of {watched}",
        why="limits and thresholds of one would be compared with the metrics of the other",
        fix=f"give {what} of the same endpoint and variant, or leave it out",
        rule=RULE,
    )
