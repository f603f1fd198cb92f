"""Checks of the functions that a deployment runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import Problem
from triton_models.base.suggest import did_you_mean

# The page about inline code allows 4 MB, and the CDK 2.275 checks nothing; a template with all its resources
# may have 1 MB, so that limit is met first.
INLINE_CODE = Check(
    id="inline-code",
    source="2026-11-21: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html",
)
"""A function whose code is in the template has to fit into one."""

LARGEST_TEMPLATE = 1_000_000
"""Bytes of a template that CloudFormation reads from S3, as the CDK's command line deploys it."""


def inline_code(size: int, *, where: str) -> Iterator[Problem]:
    """The problem with carrying code of so many bytes in a template."""
    if 0 < size < LARGEST_TEMPLATE:
        return
    yield INLINE_CODE.problem(
        what=f"the code has {size} bytes",
        where=where,
        expected=f"1 to {LARGEST_TEMPLATE - 1} bytes",
        why="CloudFormation refuses the template" if size else "a function without code does nothing",
        fix="shorten the code, or deliver it as an archive" if size else "write the function into its file",
    )


# ServiceTimeout.
ARTIFACT_TIMEOUT = Check(
    id="artifact-timeout",
    source="2026-11-21: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref-requests.html",
)
"""A deployment waits for an artifact no longer than CloudFormation waits for a custom resource."""

SHORTEST_ARTIFACT_TIMEOUT = 60
"""Seconds; to wait for less is not to wait."""
LONGEST_ARTIFACT_TIMEOUT = 3600
"""Seconds that CloudFormation waits for a custom resource."""


def artifact_timeout(seconds: float | None, *, where: str) -> Iterator[Problem]:
    """The problem with waiting so long; None is a time that is known only at deployment."""
    if seconds is not None and SHORTEST_ARTIFACT_TIMEOUT <= seconds <= LONGEST_ARTIFACT_TIMEOUT:
        return
    given = "known only when the stack is deployed" if seconds is None else f"{seconds:g} s"
    yield ARTIFACT_TIMEOUT.problem(
        what=f"artifact_timeout is {given}",
        where=where,
        expected=f"{SHORTEST_ARTIFACT_TIMEOUT} to {LONGEST_ARTIFACT_TIMEOUT} s",
        why="CloudFormation gives a custom resource up after an hour",
        fix="give a longer build its time before the deployment, with artifact_timeout=None"
        if seconds is not None and seconds > LONGEST_ARTIFACT_TIMEOUT
        else "give it in minutes, such as Duration.minutes(30), or None not to wait",
    )


DEPLOYED_MODEL = Check(id="deployed-model", source=FROM_ARGUMENTS)
"""An artifact is asked for of a model that the build makes."""


def deployed_model(
    model: str, models: Collection[str] | None, *, declared: Collection[str], where: str
) -> Iterator[Problem]:
    """The problem with asking for a model's artifact.

    Args:
        model: The model's name.
        models: What the build makes; None is everything that is declared.
        declared: The folders of all declared models.
        where: What the problem is reported for.
    """
    made = sorted(declared if models is None else models)
    if model in made or (models is None and model.partition(":")[0] in made):
        return
    yield DEPLOYED_MODEL.problem(
        what=f"the build makes no model {model!r}",
        where=where,
        expected=f"one of {', '.join(made)}",
        why="the deployment would wait for it until its time is up, and fail",
        fix=did_you_mean(model, made, otherwise=f"give ModelBuildProject {model!r} among its models"),
    )
