"""The machines that CodeBuild rents by the minute: those with a GPU, and one without."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from triton_models.facts.instances import GPUS, Gpu

# https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-compute-types.html, read 2026-11-21.
SOURCE_DATE = "2026-11-21"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildMachine:
    """A compute type of the environment LINUX_GPU_CONTAINER or LINUX_CONTAINER, on demand.

    Attributes:
        compute_type: CodeBuild's name for the machine.
        gpu: Its GPU model; None for LINUX_CONTAINER.
        gpu_count: Number of GPUs.
        memory_gib: Host memory in GiB.
        disk_gb: Disk in GB.
        regions: The regions that offer the machine; None for all regions with CodeBuild.
    """

    compute_type: str
    gpu: Gpu | None
    gpu_count: int
    memory_gib: int
    disk_gb: int
    regions: tuple[str, ...] | None

    def offered_in(self, region: str | None) -> bool:
        """Return True if a region offers the machine. An unresolved region (None) is assumed to."""
        return self.regions is None or region is None or region in self.regions


# BUILD_GENERAL1_LARGE (4 x V100) is omitted on purpose: no release since TensorRT 10.5 compiles for V100,
# and its 50 GB disk does not hold a Triton image and the exporters.
BUILD_MACHINES: Mapping[str, BuildMachine] = MappingProxyType(
    {
        "A10G": BuildMachine(
            compute_type="BUILD_GENERAL1_SMALL",
            gpu=GPUS["A10G"],
            gpu_count=1,
            memory_gib=16,
            disk_gb=235,
            regions=(
                "ap-northeast-1",
                "ca-central-1",
                "eu-central-1",
                "eu-west-1",
                "eu-west-2",
                "us-east-1",
                "us-west-2",
            ),
        )
    }
)
"""On-demand machines by the name of their GPU."""

# The smaller machines have 4 and 8 GiB, too little for an exporter and its network.
CPU_BUILD_MACHINE = BuildMachine(
    compute_type="BUILD_GENERAL1_LARGE", gpu=None, gpu_count=0, memory_gib=16, disk_gb=128, regions=None
)
"""The machine that builds for instance types without a GPU."""
