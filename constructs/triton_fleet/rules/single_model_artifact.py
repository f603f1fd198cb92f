"""A single-model endpoint serves one artifact, which is named as the repository names it."""

from __future__ import annotations

import re

from triton_models.base.errors import Problem

RULE = "single-model-artifact"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html"

_ARTIFACT = re.compile(r"[^/\s*]+\.tar\.gz")


def single_model_artifact(artifact: str | None, *, where: str) -> Problem | None:
    """The problem with serving this file of the repository; None is a name not known yet."""
    if artifact is None or _ARTIFACT.fullmatch(artifact):
        return None
    return Problem(
        what=f"the artifact is {artifact!r}",
        where=where,
        expected="a file name such as resnet50-0123456789ab.tar.gz",
        why="SageMaker reads one archive below the repository's prefix, and its name has to end in .tar.gz",
        fix="give the name that `fleet publish` has shown, without the prefix",
        rule=RULE,
    )
