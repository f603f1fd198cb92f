"""The machines with a GPU for SageMaker Processing jobs: billed per second, and free between jobs.

Source: the enumeration ProcessingInstanceType of the SageMaker API in botocore 1.44.5, read 2026-11-21. A
test compares the two.
"""

from __future__ import annotations

from triton_models.facts.instances import INSTANCE_TYPES, Gpu, InstanceType

SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProcessingClusterConfig.html"
SOURCE_DATE = "2026-11-21"

_FAMILIES = ("g4dn", "g5", "g6", "g6e", "g7", "g7e", "p3")
_SINGLE_TYPES = ("ml.p5.4xlarge",)

PROCESSING_TYPES: tuple[str, ...] = tuple(
    name for name in INSTANCE_TYPES if name.split(".")[1] in _FAMILIES or name in _SINGLE_TYPES
)
"""Hosting instance types with a GPU that Processing jobs also support, smaller ones first."""

VOLUME_GB = 100
"""The size of a job's volume. A type with instance store uses that instead, and refuses a larger volume."""


def processing_type(instance: InstanceType) -> str | None:
    """Return a type for Processing jobs with the same GPU: this type if possible, otherwise the smallest."""
    if instance.name in PROCESSING_TYPES:
        return instance.name
    return next((name for name in PROCESSING_TYPES if has_gpu(name, instance.gpu)), None)


def has_gpu(name: str, gpu: Gpu | None) -> bool:
    """Return True if an instance type has this GPU model."""
    return gpu is not None and INSTANCE_TYPES[name].gpu == gpu
