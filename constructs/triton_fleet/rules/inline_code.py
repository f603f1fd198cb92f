"""A function whose code is in the template has to fit into one."""

from __future__ import annotations

from triton_models.base.errors import Problem

RULE = "inline-code"
# Read on 2026-11-21. The page about inline code allows 4 MB, and the CDK 2.275 checks nothing; a template
# with all its resources may have 1 MB, so that limit is met first.
SOURCE = "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html"

LARGEST = 1_000_000
"""Bytes of a template that CloudFormation reads from S3, as the CDK's command line deploys it."""


def inline_code(size: int, *, where: str) -> Problem | None:
    """The problem with carrying code of so many bytes in a template."""
    if 0 < size < LARGEST:
        return None
    return Problem(
        what=f"the code has {size} bytes",
        where=where,
        expected=f"1 to {LARGEST - 1} bytes",
        why="CloudFormation refuses the template" if size else "a function without code does nothing",
        fix="shorten the code, or deliver it as an archive" if size else "write the function into its file",
        rule=RULE,
    )
