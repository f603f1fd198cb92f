"""Checks of the image: its version and region, and the GPUs that it can use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from triton_models.base.checks import Check, Report
from triton_models.base.errors import FleetError
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


def image_version(report: Report, tag: str | None, digest: str | None) -> None:
    """Report problems with a tag and a digest, of which there must be one."""
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
    report(
        OWN_IMAGE_VERSION,
        what,
        fix="use a tag of up to 128 letters, digits, _ . and -, or the digest of sha256: that docker inspect "
        "prints as RepoDigests",
        why="every new instance pulls the image by it",
    )


def image_uri(report: Report, uri: str, *, region: str | None) -> None:
    """Report problems with the URI of an image in a company's registry."""
    parts = URI.fullmatch(uri)
    if parts is None:
        report(
            OWN_IMAGE_VERSION,
            f"the image is {uri!r}",
            fix="copy it from ECR: ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME, with :TAG or @sha256:DIGEST",
            why="every new instance and every build pulls the image by it",
        )
        return
    image_beside_endpoint(report, image=parts["region"], endpoint=region)


def image_beside_endpoint(report: Report, *, image: str | None, endpoint: str | None) -> None:
    """Report problems with pulling from a registry in another region; None is a region not known yet."""
    if image is None or endpoint is None or image == endpoint:
        return
    report(
        OWN_IMAGE_REGION,
        f"the image is in {image}",
        fix=f"replicate the repository to {endpoint}, and use the replica",
        why="SageMaker pulls images only from its own region",
    )


def multi_model_label(report: Report, labels: Mapping[str, str] | None, *, source: str, stated: bool) -> None:
    """Report problems with serving many models from an image with these labels."""
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
    report(
        OWN_IMAGE_LABEL,
        what,
        fix=fix,
        why="without this label SageMaker refuses the image for multi-model endpoints",
    )


def image_published(report: Report, release: Release) -> None:
    """Report problems with serving a release of which SageMaker has no image at all."""
    if not release.on_sagemaker:
        _refusal(report, release, region="")


def release_unlisted(report: Report, release: Release) -> None:
    """Report problems about a release that the table lacks, for an image of your own."""
    if release.is_listed:
        return
    report(
        RELEASE_UNLISTED,
        f"release {release.name} is not in the table of releases",
        fix="compare CUDA_VERSION in the image, or use a release of the table",
        why=f"checks assume its CUDA to be {release.cuda}, and builds take TensorRT's version from the image",
    )


def image_region(report: Report, release: Release, region: str | None) -> None:
    """Report problems with pulling a published image in a region; none where the region is not known yet."""
    if region is not None and release.on_sagemaker:
        _refusal(report, release, region=region)


def _refusal(report: Report, release: Release, *, region: str) -> None:
    try:
        image_account(region=region, release=release)
    except FleetError as error:
        report.add([replace(error.problems[0], where=report.where)])


GPU_GENERATION_SUPPORTED = Check(
    id="gpu-generation-supported",
    source="2026-11-21: https://docs.nvidia.com/deeplearning/tensorrt/latest/getting-started/release-notes-10/10.5.0.html",
)
"""The TensorRT of a release supports the generation of the GPU."""


def gpu_generation(report: Report, gpu: Gpu, release: Release) -> None:
    """Report problems with running this release on this GPU."""
    if _supports(gpu, release):
        return
    fitting = [known.name for known in RELEASES.values() if known.on_sagemaker and _supports(gpu, known)]
    older = f", or release {fitting[-1]}, the last that supports {gpu.name}" if fitting else ""
    report(
        GPU_GENERATION_SUPPORTED,
        f"{gpu.name} has compute capability {gpu.compute_capability}",
        fix=f"use {DEFAULT_INSTANCE_TYPE}{older}",
        why=f"TensorRT {release.tensorrt} does not support older GPUs",
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


def cpu_image(report: Report, instance: InstanceType, *, asked: bool, own: bool = False) -> None:
    """Report problems with the image for CPUs on this instance type."""
    if not asked or (instance.gpu is None and not own):
        return
    if own:
        what, why = "both cpu_image and a custom image are given", "an endpoint runs one image"
    else:
        assert instance.gpu is not None  # noqa: S101 -- the other case was returned
        what = f"cpu_image is given, and {instance.name} has a GPU ({instance.gpu.name})"
        why = "the image for CPUs has no CUDA, so no plan would load"
    report(CPU_IMAGE, what, fix="remove cpu_image", why=why)
