"""A name is one that SageMaker takes for an endpoint or a variant."""

from __future__ import annotations

import re

from triton_models.base.errors import Problem

RULE = "resource-name"
# Read on 2026-11-21; names of variants have the same pattern and length.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpoint.html"

# SageMaker's pattern counts no hyphens; the length is a limit of its own.
_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9])*")
LONGEST = 63
"""Characters of a name, hyphens among them."""


def resource_name(name: str | None, *, what: str, where: str) -> Problem | None:
    """The problem with a name.

    Args:
        name: The name; None is one not known yet, or none at all.
        what: What is named, such as "the endpoint".
        where: What the problem is reported for.
    """
    if name is None:
        return None
    too_long = len(name) > LONGEST
    if _NAME.fullmatch(name) and not too_long:
        return None
    return Problem(
        what=f"{what} is named {name[:80]!a}" + f", with {len(name)} characters" * too_long,
        where=where,
        expected=f"1 to {LONGEST} letters, digits and hyphens, such as search-g5",
        why="SageMaker refuses the name, after everything before it has been deployed",
        fix=f"shorten it to {LONGEST} characters"
        if too_long
        else "begin and end with a letter or a digit, and have only these and hyphens between",
        rule=RULE,
    )
