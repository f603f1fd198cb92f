"""A name is one that SageMaker takes for an endpoint or a variant."""

from __future__ import annotations

import re

from triton_models.errors import Problem

RULE = "resource-name"
# Read on 2026-11-21; names of variants have the same pattern.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpoint.html"

_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")


def resource_name(name: str | None, *, what: str, where: str) -> Problem | None:
    """The problem with a name.

    Args:
        name: The name; None is one not known yet, or none at all.
        what: What is named, such as "the endpoint".
        where: What the problem is told about.
    """
    if name is None or _NAME.fullmatch(name):
        return None
    return Problem(
        what=f"{what} is named {name[:80]!a}",
        where=where,
        expected="1 to 63 letters, digits and hyphens, such as search-g5",
        why="SageMaker refuses the name, after everything before it has been deployed",
        fix="begin and end with a letter or a digit, and have only hyphens between",
        rule=RULE,
    )
