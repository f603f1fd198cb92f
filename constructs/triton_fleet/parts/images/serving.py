"""What serves models: the hardware and the software, which travel together from a fleet to its parts."""

from __future__ import annotations

from dataclasses import dataclass

from triton_fleet.parts.arguments.checks import look_up
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.images.checks import cpu_image, gpu_generation, image_published, image_region
from triton_fleet.parts.images.image import CustomImage
from triton_models.base.checks import Report
from triton_models.facts.instances import DEFAULT_INSTANCE_TYPE, InstanceType
from triton_models.facts.releases import DEFAULT_RELEASE, Release
from triton_models.facts.releases import release as find_release


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
            image_published(report.at("release"), release)
            image_region(report.at("release"), release, known(region))
        return release

    def _fits(self, report: Report, place: Report, instance: InstanceType, release: Release | None) -> None:
        """Report problems with running the image on an instance type, which `place` names."""
        cpu_image(report.at("cpu_image"), instance, asked=self.cpu_image, own=self.image is not None)
        if instance.gpu is not None and release is not None:
            gpu_generation(place, instance.gpu, release)
