"""The machines that can build models: on demand, for a single job, or reserved. Read 2026-11-21.

* CodeBuild rents machines by the minute, and reserves others for an account:
  https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-compute-types.html. It documents the
  families of custom instance types for reserved fleets, but not the sizes. Each row is the smallest size of
  its family: a fleet is billed while it exists, and a build uses one GPU. G7, G7e, P4de and P6 are missing.
* SageMaker Processing jobs are billed per second, and free between jobs: the enumeration
  ProcessingInstanceType of the SageMaker API in botocore 1.44.5. A test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from triton_models.facts.instances import GPUS, INSTANCE_TYPES, Gpu, InstanceType

Automatic = Literal["on demand", "processing job"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildMachine:
    """A compute type of the environment LINUX_GPU_CONTAINER, or of LINUX_CONTAINER without a GPU, on demand.

    Attributes:
        regions: The regions that offer the machine; None for all regions with CodeBuild.
    """

    compute_type: str
    gpu: Gpu | None
    regions: tuple[str, ...] | None

    def offered_in(self, region: str | None) -> bool:
        """Return True if a region offers the machine. An unresolved region (None) is assumed to."""
        return self.regions is None or region is None or region in self.regions


# BUILD_GENERAL1_LARGE (4 x V100) is omitted on purpose: no release since TensorRT 10.5 compiles for V100,
# and its 50 GB disk does not hold a Triton image and the exporters.
BUILD_MACHINES: Mapping[str, BuildMachine] = {
    "A10G": BuildMachine(
        compute_type="BUILD_GENERAL1_SMALL",
        gpu=GPUS["A10G"],
        regions=(
            *("ap-northeast-1", "ca-central-1", "eu-central-1", "eu-west-1", "eu-west-2", "us-east-1"),
            "us-west-2",
        ),
    )
}
"""On-demand machines by the name of their GPU."""

# It has 16 GiB, and a disk of 128 GB. The smaller machines have 4 and 8 GiB, too little for an exporter.
CPU_BUILD_MACHINE = BuildMachine(compute_type="BUILD_GENERAL1_LARGE", gpu=None, regions=None)
"""The machine that builds for instance types without a GPU."""

_FAMILIES = ("g4dn", "g5", "g6", "g6e", "g7", "g7e", "p3")
_SINGLE_TYPES = ("ml.p5.4xlarge",)

PROCESSING_TYPES: tuple[str, ...] = tuple(
    name for name in INSTANCE_TYPES if name.split(".")[1] in _FAMILIES or name in _SINGLE_TYPES
)
"""Hosting instance types with a GPU that Processing jobs also support, smaller ones first."""

VOLUME_GB = 100
"""The size of a job's volume. A type with instance store uses that instead, and refuses a larger volume."""

RESERVED_REGIONS = (
    *("ap-northeast-1", "ap-southeast-2", "eu-central-1", "eu-west-1", "us-east-1", "us-east-2", "us-west-2"),
)
"""The regions in which reserved fleets support the environment LINUX_GPU_CONTAINER."""

EXTRA_DISK_GB = 64
"""Disk added to the 64 GB of every custom instance type, for as much as the CPU build machine has."""


def _by_gpu(*names: str) -> Mapping[str, str]:
    gpus = {name: INSTANCE_TYPES[f"ml.{name}"].gpu for name in names}  # the same hardware in EC2
    return {gpu.name: name for name, gpu in gpus.items() if gpu}


RESERVED_MACHINES = _by_gpu(
    *("g4dn.xlarge", "g5.xlarge", "g6.xlarge", "g6e.xlarge", "p3.2xlarge", "p4d.24xlarge"),
    *("p5.4xlarge", "p5e.48xlarge"),
)
"""EC2's names of the machines that CodeBuild reserves as CUSTOM_INSTANCE_TYPE, by the name of their GPU."""


def processing_type(instance: InstanceType) -> str | None:
    """Return a type for Processing jobs with the same GPU: this type if possible, otherwise the smallest."""
    if instance.name in PROCESSING_TYPES:
        return instance.name
    return next((name for name in PROCESSING_TYPES if has_gpu(name, instance.gpu)), None)


def has_gpu(name: str, gpu: Gpu | None) -> bool:
    """Return True if an instance type has this GPU model."""
    return gpu is not None and INSTANCE_TYPES[name].gpu == gpu


def automatic_machine(instance: InstanceType, region: str | None) -> Automatic | None:
    """Return the default build machine: one that has the endpoint's GPU and costs nothing while idle.

    CodeBuild on demand comes first, because its builds start sooner: a Processing job first waits for an
    instance and pulls the image. None if every machine with that GPU costs money while idle.
    """
    rented = BUILD_MACHINES.get(instance.gpu.name) if instance.gpu is not None else None
    if rented is not None and rented.offered_in(region):
        return "on demand"
    return "processing job" if processing_type(instance) is not None else None
