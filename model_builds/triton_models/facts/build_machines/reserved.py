"""The machines with a GPU that CodeBuild reserves for an account: reserved-capacity fleets.

CodeBuild documents the families of custom instance types for a fleet, but not the sizes. Each row is the
smallest size of its family: a fleet is billed while it exists, and a build uses only one GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from triton_models.facts.instances import INSTANCE_TYPES, Gpu

# Families: .../userguide/build-env-ref-compute-types.html, "Supported instance families"; regions: the table
# of reserved capacity on the same page, environment LINUX_GPU_CONTAINER. G7, G7e, P4de and P6 are missing.
SOURCE = "https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-compute-types.html"
SOURCE_DATE = "2026-11-21"

RESERVED_REGIONS = (
    "ap-northeast-1",
    "ap-southeast-2",
    "eu-central-1",
    "eu-west-1",
    "us-east-1",
    "us-east-2",
    "us-west-2",
)
"""The regions in which fleets support the environment LINUX_GPU_CONTAINER."""

EXTRA_DISK_GB = 64
"""Disk added to the 64 GB of every custom instance type, for as much as the CPU build machine has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedMachine:
    """A machine of a reserved-capacity fleet, whose compute type is CUSTOM_INSTANCE_TYPE.

    Attributes:
        instance_type: EC2's name for it, such as "g6.xlarge".
        gpu: Its GPU model.
        gpu_count: Number of GPUs.
        memory_gib: Host memory in GiB.
    """

    instance_type: str
    gpu: Gpu
    gpu_count: int
    memory_gib: float


def _machines(*names: str) -> Mapping[str, ReservedMachine]:
    """Return the machines by GPU. SageMaker's types with the same names are the same hardware."""
    machines = {}
    for name in names:
        facts = INSTANCE_TYPES[f"ml.{name}"]
        assert facts.gpu is not None  # noqa: S101 -- every row of this table has one
        machines[facts.gpu.name] = ReservedMachine(
            instance_type=name, gpu=facts.gpu, gpu_count=facts.gpu_count, memory_gib=facts.memory_gib
        )
    return MappingProxyType(machines)


RESERVED_MACHINES = _machines(
    "g4dn.xlarge",
    "g5.xlarge",
    "g6.xlarge",
    "g6e.xlarge",
    "p3.2xlarge",
    "p4d.24xlarge",
    "p5.4xlarge",
    "p5e.48xlarge",
)
"""Reserved machines by the name of their GPU."""
