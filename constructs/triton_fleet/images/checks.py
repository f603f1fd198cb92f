"""Checks of the image: its version and region, and the GPUs that it can use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from triton_models.base.checks import Check
from triton_models.base.errors import FleetError, Problem
from triton_models.facts.instances import DEFAULT_INSTANCE_TYPE, Gpu, InstanceType
from triton_models.facts.releases import RELEASE_UNLISTED, RELEASES, Release, image_account

# The registry pulled from was read in API_ContainerDefinition.html of the same reference.
OWN_IMAGE_VERSION = Check(
    id="own-image-version",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/mms-container-apis.html",
)
# The registry pulled from was read in API_ContainerDefinition.html of the same reference.
OWN_IMAGE_REGION = Check(
    id="own-image-region",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/mms-container-apis.html",
)
# The registry pulled from was read in API_ContainerDefinition.html of the same reference.
OWN_IMAGE_LABEL = Check(
    id="own-image-label",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/mms-container-apis.html",
)
"""A custom image has an exact name, is in the endpoint's region, and can serve many models."""

MULTI_MODEL_LABEL = "com.amazonaws.sagemaker.capabilities.multi-models"
URI = re.compile(
    r"(?P<account>[0-9]{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?/"
    r"(?P<name>[a-z0-9][a-z0-9._/-]{0,254})(:(?P<tag>\w[\w.-]{0,127})|@(?P<digest>sha256:[0-9a-f]{64}))",
    re.ASCII,
)
"""The URI of an image in ECR."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)


def image_version(tag: str | None, digest: str | None, *, where: str) -> Iterator[Problem]:
    """The problem with naming a version of an image by this tag and digest, of which there must be one."""
    given = [value for value in (tag, digest) if value is not None]
    if len(given) != 1:
        what = (
            "neither a tag nor a digest is given"
            if not given
            else f"both tag {tag!r} and digest {digest!r} are given"
        )
    elif tag is not None and not _TAG.fullmatch(tag):
        what = f"the tag is {tag!r}"
    elif digest is not None and not _DIGEST.fullmatch(digest):
        what = f"the digest is {digest!r}"
    else:
        return
    yield OWN_IMAGE_VERSION.problem(
        what=what,
        where=where,
        expected="either a tag of up to 128 letters, digits, _ . and -, or a digest of sha256: and 64 hex "
        "digits",
        why="every new instance pulls the image by it",
        fix="use the digest, which always names the same image: docker inspect prints it as RepoDigests",
    )


def image_uri(uri: str, *, region: str | None, where: str) -> Iterator[Problem]:
    """The problem with the URI of an image in a company's registry.

    Args:
        uri: The URI.
        region: The region of the stack; None if it is not known.
        where: The place that the problem names.
    """
    parts = URI.fullmatch(uri)
    if parts is None:
        yield OWN_IMAGE_VERSION.problem(
            what=f"the image is {uri!r}",
            where=where,
            expected="ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME, with :TAG or @sha256:DIGEST",
            why="every new instance and every build pulls the image by it",
            fix="copy the image's URI from the console of ECR",
        )
        return
    yield from image_beside_endpoint(image=parts["region"], endpoint=region, where=where)


def image_beside_endpoint(*, image: str | None, endpoint: str | None, where: str) -> Iterator[Problem]:
    """The problem with pulling from a registry in another region; None is a region not known yet."""
    if image is None or endpoint is None or image == endpoint:
        return
    yield OWN_IMAGE_REGION.problem(
        what=f"the image is in {image}",
        where=where,
        expected=f"an ECR repository in {endpoint}, the region of the endpoint",
        why="SageMaker pulls images only from its own region",
        fix=f"replicate the repository to {endpoint}, and use the replica",
    )


def multi_model_label(
    labels: Mapping[str, str] | None, *, source: str, stated: bool, where: str
) -> Iterator[Problem]:
    """The problem with serving many models from an image with these labels.

    Args:
        labels: The image's labels; None where nothing was given to read them from.
        source: Their source, for the message.
        stated: True if the user says that the image has the label.
        where: The place that the problem names.
    """
    if labels is None:
        if stated:
            return
        what = f"it is not known if the image has the label {MULTI_MODEL_LABEL}"
        fix = "add described_by, or has_multi_model_label=True if docker inspect shows the label"
    else:
        value = labels.get(MULTI_MODEL_LABEL)
        if value == "true":
            return
        what = f"{source} does not have the label {MULTI_MODEL_LABEL}"
        if value is not None:
            what = f"{source} has {MULTI_MODEL_LABEL}={value!r}"
        fix = f"add LABEL {MULTI_MODEL_LABEL}=true to the Dockerfile, then build and push the image"
    yield OWN_IMAGE_LABEL.problem(
        what=what,
        where=where,
        expected=f"{MULTI_MODEL_LABEL}=true",
        why="without this label SageMaker refuses the image for multi-model endpoints",
        fix=fix,
    )


def image_published(release: Release, *, where: str) -> Iterator[Problem]:
    """The problem with serving a release of which SageMaker has no image at all."""
    if not release.on_sagemaker:
        yield from _refusal(release, region="", where=where)


def release_unlisted(release: Release, *, where: str) -> Iterator[Problem]:
    """Yield the warning about a release that the table lacks, for an image of your own."""
    if release.is_listed:
        return
    yield RELEASE_UNLISTED.problem(
        what=f"release {release.name} is not in the table of releases",
        where=where,
        expected=f"one of {', '.join(RELEASES)}",
        why=f"checks assume its CUDA to be {release.cuda}, and builds take TensorRT's version from the image",
        fix="compare CUDA_VERSION in the image, or use a release of the table",
    )


def image_region(release: Release, region: str | None, *, where: str) -> Iterator[Problem]:
    """The problem with pulling a published image in a region; none where the region is not known yet."""
    if region is not None and release.on_sagemaker:
        yield from _refusal(release, region=region, where=where)


def _refusal(release: Release, *, region: str, where: str) -> Iterator[Problem]:
    try:
        image_account(region=region, release=release)
    except FleetError as error:
        yield replace(error.problems[0], where=where)


GPU_GENERATION_SUPPORTED = Check(
    id="gpu-generation-supported",
    source="2026-11-21: https://docs.nvidia.com/deeplearning/tensorrt/latest/getting-started/release-notes-10/10.5.0.html",
)
"""The TensorRT of a release supports the generation of the GPU."""


def gpu_generation(gpu: Gpu, release: Release, *, where: str) -> Iterator[Problem]:
    """The problem with running this release on this GPU."""
    if _supports(gpu, release):
        return
    fitting = [known.name for known in RELEASES.values() if known.on_sagemaker and _supports(gpu, known)]
    older = f", or release {fitting[-1]}, the last that supports {gpu.name}" if fitting else ""
    yield GPU_GENERATION_SUPPORTED.problem(
        what=f"{gpu.name} has compute capability {gpu.compute_capability}",
        where=where,
        expected=f"{release.min_compute_capability} or newer, for release {release.name}",
        why=f"TensorRT {release.tensorrt} does not support older GPUs",
        fix=f"use {DEFAULT_INSTANCE_TYPE}{older}",
    )


def _supports(gpu: Gpu, release: Release) -> bool:
    return _capability(gpu.compute_capability) >= _capability(release.min_compute_capability)


def _capability(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split("."))


# Since 23.12, deep-learning-containers lists only images for GPUs; the suffix for types without a GPU is from
# AWS's SDK.
CPU_IMAGE = Check(
    id="cpu-image",
    source="2026-11-22: https://github.com/aws/deep-learning-containers/blob/master/available_images.md",
)
"""The image for CPUs is only for instance types without a GPU."""


def cpu_image(instance: InstanceType, *, asked: bool, own: bool = False, where: str) -> Iterator[Problem]:
    """The problem with the image for CPUs on this instance type.

    Args:
        instance: The instance type that is served on, or built for.
        asked: True if the user chose that image.
        own: True if the user also gives an image.
        where: The place that the problem names.
    """
    if not asked or (instance.gpu is None and not own):
        return
    if own:
        what, expected = "both cpu_image and a custom image are given", "one of the two"
        why = "an endpoint runs one image"
    else:
        assert instance.gpu is not None  # noqa: S101 -- the other case was returned
        what = f"cpu_image is given, and {instance.name} has a GPU ({instance.gpu.name})"
        expected, why = "no cpu_image", "the image for CPUs has no CUDA, so no plan would load"
    yield CPU_IMAGE.problem(what=what, where=where, expected=expected, why=why, fix="remove cpu_image")
