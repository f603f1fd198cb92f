"""What serves models: the hardware and the software, which travel together from a fleet to its parts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from triton_fleet.parts.arguments.checks import look_up
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.images.image import CustomImage
from triton_models.base.checks import Check, Report
from triton_models.base.errors import FleetError
from triton_models.facts.instances import DEFAULT_INSTANCE_TYPE, Gpu, InstanceType
from triton_models.facts.releases import DEFAULT_RELEASE, RELEASE_UNLISTED, RELEASES, Release, image_account
from triton_models.facts.releases import release as find_release

GPU_GENERATION_SUPPORTED = Check(
    id="gpu-generation-supported",
    source="2026-11-21: https://docs.nvidia.com/deeplearning/tensorrt/latest/getting-started/release-notes-10/10.5.0.html",
)


# Since 23.12, deep-learning-containers lists only images for GPUs; the suffix for types without a GPU is from
# AWS's SDK.
CPU_IMAGE = Check(
    id="cpu-image",
    source="2026-11-22: https://github.com/aws/deep-learning-containers/blob/master/available_images.md",
)


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The instances and the Triton that serve models, and that models are built for.

    Attributes:
        instance_type: A type with one GPU, or with none for models that need none. It decides the GPU that
            plans are compiled on. The default has twice the host memory of the smallest for 8 % more money,
            and host memory bounds how fast models load.
        release: The Triton release, which decides the TensorRT that plans are compiled with. The default is
            the newest on SageMaker in which evicting one model does not stall the others.
        image: An image of your own, made from that of `release`, such as a copy in your registry. By default
            AWS's image.
        cpu_image: Run AWS's image for CPUs, whose tag ends in "-cpu", on an instance type without a GPU. AWS
            lists the image for GPUs only, which is the default on either.
        inference_ami: The host image, which brings the GPU's driver. By default the one for the CUDA of
            `release`, even for a custom image. If SageMaker refuses it on your instance type, use release
            25.04, or name another one here.
        allow_unlisted_instance_type: Try an instance type that AWS does not list for multi-model endpoints,
            such as ml.g6.2xlarge. SageMaker may refuse it at deployment.
    """

    instance_type: str = DEFAULT_INSTANCE_TYPE
    release: str = DEFAULT_RELEASE
    image: CustomImage | None = None
    cpu_image: bool = False
    inference_ami: str | None = None
    allow_unlisted_instance_type: bool = False

    def _release(self, report: Report, *, region: str | None, multi_model: bool) -> Release | None:
        """Report problems with release and image in a region, and return the release if it is known."""
        release = look_up(report, "release", self.release, find_release)
        if self.image is not None:
            self.image._check(report.at("image"), region=region, multi_model=multi_model)
        elif release is not None:
            image_region(report.at("release"), release, known(region))
        return release

    def _fits(self, report: Report, place: Report, instance: InstanceType, release: Release | None) -> None:
        """Report problems with running the image on an instance type, which `place` names."""
        gpu = instance.gpu
        if self.cpu_image and self.image is not None:
            report.at("cpu_image")(
                CPU_IMAGE,
                "both cpu_image and a custom image are given",
                fix="remove cpu_image",
                why="an endpoint runs one image",
            )
        elif self.cpu_image and gpu is not None:
            report.at("cpu_image")(
                CPU_IMAGE,
                f"cpu_image is given, and {instance.name} has a GPU ({gpu.name})",
                fix="remove cpu_image",
                why="the image for CPUs has no CUDA, so no plan would load",
            )
        if gpu is None or release is None or _supports(gpu, release):
            return
        fitting = [each.name for each in RELEASES.values() if each.on_sagemaker and _supports(gpu, each)]
        older = f", or release {fitting[-1]}, the last that supports {gpu.name}" if fitting else ""
        place(
            GPU_GENERATION_SUPPORTED,
            f"{gpu.name} has compute capability {gpu.compute_capability}",
            fix=f"use {DEFAULT_INSTANCE_TYPE}{older}",
            why=f"TensorRT {release.tensorrt} does not support older GPUs",
        )


def image_region(report: Report, release: Release, region: str | None) -> None:
    """Report problems with pulling a published image in a region; None where the region is not known yet."""
    if region is None and release.on_sagemaker:
        return
    try:
        image_account(region=region or "", release=release)
    except FleetError as error:
        report.add([replace(error.problems[0], where=report.where)])


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


def _supports(gpu: Gpu, release: Release) -> bool:
    return _capability(gpu.compute_capability) >= _capability(release.min_compute_capability)


def _capability(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split("."))
