"""A volume is sized and encrypted only where there is one: instance types with local NVMe have none."""

from __future__ import annotations

from collections.abc import Iterator

from triton_models.base.errors import Problem
from triton_models.facts.instances import InstanceType

RULE = "local-storage-no-volume"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html"


def local_storage(
    instance: InstanceType, *, volume_size_gb: float | None, has_key: bool, where: str
) -> Iterator[Problem]:
    """The problems with asking for a volume on this instance type.

    Args:
        instance: The instance type.
        volume_size_gb: The size that was asked for; None if none was.
        has_key: Whether a key for the volume was given.
        where: What the problems are reported for.
    """
    if not instance.nvme_gb:
        return
    for asked, drop in (
        (volume_size_gb is not None, "volume_size_gb"),
        (has_key, "encryption_key"),
    ):
        if asked:
            yield Problem(
                what=f"{drop} is given, and {instance.name} has local NVMe ({instance.nvme_gb} GB)",
                where=where,
                expected="an instance type without local NVMe, such as the ml.m5 and ml.c5 types",
                why="SageMaker refuses the endpoint configuration: there is no volume to size or to encrypt. "
                "The NVMe is always encrypted, by the instance's own hardware",
                fix=f"leave {drop} out",
                rule=RULE,
            )
