"""What scales a fleet has a name of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triton_models.base.errors import Problem

RULE = "one-target-a-metric"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScalingPolicy.html"

FROM_ZERO = "FromZero"
"""The policy of an asynchronous endpoint that brings the first instance back."""

RESERVED = frozenset({"Target", FROM_ZERO})
"""Construct ids that scaling has taken for itself."""


def scaling_names(names: Sequence[str], *, where: str) -> Iterator[Problem]:
    """The problems with these names of policies, of target tracking and step scaling together."""
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem(
            what=f"{names.count(name)} targets for {name}",
            where=where,
            expected="each metric once, each under its own name",
            why="two targets for one metric pull the fleet in two directions",
            fix="keep one of them, or name them differently if their metrics differ",
            rule=RULE,
        )
    for name in sorted(RESERVED.intersection(names)):
        yield Problem(
            what=f"a policy is named {name!r}",
            where=where,
            expected=f"any other name than {', '.join(sorted(RESERVED))}",
            why="scaling has a construct of that id already: the scalable target, or the policy that brings "
            "the first instance back",
            fix="name it after its metric, such as QueueDepth",
            rule=RULE,
        )
