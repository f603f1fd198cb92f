"""The name of a scaling policy or of a scheduled action, which is the id of a construct as well."""

from __future__ import annotations

import re

from triton_models.base.errors import Problem

RULE = "policy-name"
# Read on 2026-11-21: the patterns of PolicyName and ScheduledActionName.
SOURCE = "https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScheduledAction.html"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def policy_name(name: str, *, where: str) -> Problem | None:
    """The problem with a name; a token is not valid either, because ids of constructs are written down."""
    if _NAME.fullmatch(name):
        return None
    return Problem(
        what=f"the name is {name[:60]!a}",
        where=where,
        expected="1 to 100 letters, digits, hyphens, dots and underscores, known when the app is synthesised",
        why="it is part of the policy's name and the id of its construct",
        fix="name it after its metric or its hour, such as QueueDepth or Morning",
        rule=RULE,
    )
