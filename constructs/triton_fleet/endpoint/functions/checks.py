"""Checks of the functions that a deployment runs."""

from __future__ import annotations

from collections.abc import Collection

from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.suggest import did_you_mean

# The page about inline code allows 4 MB, and CDK 2.275 does not check the size. The limit of a template is
# 1 MB, and applies first.
INLINE_CODE = Check(
    id="inline-code",
    source="2026-11-21: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html",
)
"""Inline code of a function must fit into a template."""

LARGEST_TEMPLATE = 1_000_000
"""Bytes of a template that CloudFormation reads from S3, where the CDK uploads it."""


def inline_code(report: Report, size: int) -> None:
    """Report problems if code of so many bytes does not fit into a template."""
    if 0 < size < LARGEST_TEMPLATE:
        return
    report(
        INLINE_CODE,
        f"the code has {size} bytes",
        fix=f"shorten the code to {LARGEST_TEMPLATE - 1} bytes" if size else "write the function to its file",
        why="CloudFormation refuses the template" if size else "a function without code does nothing",
    )


# ServiceTimeout.
ARTIFACT_TIMEOUT = Check(
    id="artifact-timeout",
    source="2026-11-21: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref-requests.html",
)
"""A deployment waits for an artifact at most as long as CloudFormation waits for a custom resource."""

SHORTEST_ARTIFACT_TIMEOUT = 60
"""Seconds."""
LONGEST_ARTIFACT_TIMEOUT = 3600
"""Seconds that CloudFormation waits for a custom resource."""


def artifact_timeout(report: Report, seconds: float | None) -> None:
    """Report problems with the time to wait for an artifact; None if it is known only at deployment."""
    if seconds is not None and SHORTEST_ARTIFACT_TIMEOUT <= seconds <= LONGEST_ARTIFACT_TIMEOUT:
        return
    given = "known only when the stack is deployed" if seconds is None else f"{seconds:g} s"
    report(
        ARTIFACT_TIMEOUT,
        f"artifact_timeout is {given}",
        fix=f"use {SHORTEST_ARTIFACT_TIMEOUT} to {LONGEST_ARTIFACT_TIMEOUT} s, or artifact_timeout=None",
        why="CloudFormation gives up on a custom resource after an hour",
    )


DEPLOYED_MODEL = Check(id="deployed-model", source=FROM_ARGUMENTS)
"""The requested artifact is of a model that the build makes."""


def deployed_model(
    report: Report, model: str, models: Collection[str] | None, *, declared: Collection[str]
) -> None:
    """Report problems if the build does not make the model of a requested artifact."""
    made = sorted(declared if models is None else models)
    if model in made or (models is None and model.partition(":")[0] in made):
        return
    report(
        DEPLOYED_MODEL,
        f"the build has no model {model!r}",
        fix=did_you_mean(model, made, otherwise=f"add {model!r} to the models of ModelBuildProject"),
        why="the deployment would wait for it, time out and fail",
    )
