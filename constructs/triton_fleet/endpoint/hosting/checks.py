"""The check of names."""

from __future__ import annotations

import re

from triton_models.base.checks import Check, Report

# Names of variants have the same pattern and length.
RESOURCE_NAME = Check(
    id="resource-name",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpoint.html",
)
"""Names of endpoints and variants are valid in SageMaker."""
# SageMaker's pattern does not limit the hyphens; the length is a separate limit.
_RESOURCE_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9])*")
LONGEST_RESOURCE_NAME = 63
"""Characters of a name, including hyphens."""


def resource_name(report: Report, name: str | None, *, what: str) -> None:
    """Report problems with a name."""
    if name is None:
        return
    too_long = len(name) > LONGEST_RESOURCE_NAME
    if _RESOURCE_NAME.fullmatch(name) and not too_long:
        return
    report(
        RESOURCE_NAME,
        f"{what} is named {name[:80]!a}" + f", with {len(name)} characters" * too_long,
        fix=f"shorten it to {LONGEST_RESOURCE_NAME} characters"
        if too_long
        else f"use 1 to {LONGEST_RESOURCE_NAME} letters, digits and hyphens, such as search-g5",
        why="SageMaker refuses the name, and the deployment fails part-way through",
    )
