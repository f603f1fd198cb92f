"""An image of one's own is named exactly, is where SageMaker pulls from, and may serve many models."""

from __future__ import annotations

import re
from collections.abc import Mapping

from triton_models.base.errors import Problem

RULES = ("own-image-version", "own-image-region", "own-image-label")
# Read on 2026-11-21; the registry pulled from was read in API_ContainerDefinition.html of the same reference.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/mms-container-apis.html"

MULTI_MODEL_LABEL = "com.amazonaws.sagemaker.capabilities.multi-models"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)


def image_version(tag: str | None, digest: str | None, *, where: str) -> Problem | None:
    """The problem with naming a version of an image by this tag and digest, of which there must be one."""
    given = [value for value in (tag, digest) if value is not None]
    if len(given) != 1:
        what = (
            "neither a tag nor a digest is given" if not given else f"both {tag!r} and {digest!r} are given"
        )
    elif tag is not None and not _TAG.fullmatch(tag):
        what = f"the tag is {tag!r}"
    elif digest is not None and not _DIGEST.fullmatch(digest):
        what = f"the digest is {digest!r}"
    else:
        return None
    return Problem(
        what=what,
        where=where,
        expected="a tag of up to 128 letters, digits, _ . and -, or a digest of sha256: and 64 hex digits",
        why="every instance that is ever started pulls the image by this",
        fix="give the digest, which always names the same image: docker inspect prints it as RepoDigests",
        rule="own-image-version",
    )


def image_beside_endpoint(*, image: str | None, endpoint: str | None, where: str) -> Problem | None:
    """The problem with pulling from a registry in another region; None is a region not known yet."""
    if image is None or endpoint is None or image == endpoint:
        return None
    return Problem(
        what=f"the image is in {image}",
        where=where,
        expected=f"an ECR repository in {endpoint}, the region of the endpoint",
        why="SageMaker pulls images from its own region only",
        fix=f"replicate the repository to {endpoint} and name that one",
        rule="own-image-region",
    )


def multi_model_label(
    labels: Mapping[str, str] | None, *, source: str, stated: bool, where: str
) -> Problem | None:
    """The problem with serving many models from an image with these labels.

    Args:
        labels: The image's labels; None where nothing was given to read them from.
        source: What they were read from, for the message.
        stated: Whether the user says that the image has the label.
        where: What the problem is reported for.
    """
    if labels is None:
        if stated:
            return None
        what = f"nothing says that the image has the label {MULTI_MODEL_LABEL}"
        fix = "give described_by, or after docker inspect has shown the label, has_multi_model_label=True"
    else:
        value = labels.get(MULTI_MODEL_LABEL)
        if value == "true":
            return None
        what = f"{source} has {'no label ' + MULTI_MODEL_LABEL if value is None else f'it as {value!r}'}"
        fix = f"add LABEL {MULTI_MODEL_LABEL}=true to the Dockerfile, and build and push the image again"
    return Problem(
        what=what,
        where=where,
        expected=f"{MULTI_MODEL_LABEL}=true",
        why="SageMaker refuses a multi-model endpoint with an image that does not say it can serve one",
        fix=fix,
        rule="own-image-label",
    )
