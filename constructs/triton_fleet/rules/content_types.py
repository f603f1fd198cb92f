"""Content types of captured data are such that SageMaker takes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from triton_models.base.errors import Problem

RULE = "content-types"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CaptureContentTypeHeader.html"

MOST = 10
LONGEST = 256
"""Characters of a type."""
_TYPE = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9])*/[a-zA-Z0-9](-*[a-zA-Z0-9.])*")


def content_types(types: Sequence[str], *, name: str, where: str) -> Iterator[Problem]:
    """The problems with content types.

    Args:
        types: What was given; SageMaker's pattern leaves out types with a plus or an underscore.
        name: The argument's name.
        where: What the problems are reported for.
    """
    for each in types:
        if len(each) > LONGEST or not _TYPE.fullmatch(each):
            yield _problem(f"{name} holds {each[:60]!a}", where)
    if len(types) > MOST:
        yield _problem(f"{name} holds {len(types)} content types", where)


def _problem(what: str, where: str) -> Problem:
    return Problem(
        what=what,
        where=where,
        expected=f"at most {MOST} types such as application/json, each of up to {LONGEST} letters, digits, "
        "hyphens and dots",
        why="SageMaker refuses the endpoint configuration",
        fix="leave it out: what is not named is kept in base64",
        rule=RULE,
    )
