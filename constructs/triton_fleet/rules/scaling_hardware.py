"""A target that is given for a GPU scales instances that have one."""

from __future__ import annotations

from triton_models.base.errors import Problem
from triton_models.facts.instances import InstanceType

RULE = "scaling-target-hardware"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html"


def scaling_hardware(instance: InstanceType, *, per_gpu: bool, policy: str, where: str) -> Problem | None:
    """The problem with a target on this instance type.

    Args:
        instance: The type of the scaled instances.
        per_gpu: Whether the target is given for a GPU.
        policy: The target's name.
        where: What the problem is reported for.
    """
    if not per_gpu or instance.gpu_count > 0:
        return None
    return Problem(
        what=f"the target {policy} is for each GPU, and {instance.name} has no GPU",
        where=where,
        expected="a target that the instances can have, such as CpuUtilization(percent=60)",
        why="nothing is published about GPUs there, so the fleet would never change its size",
        fix="use CpuUtilization or InvocationsPerInstance, or an instance type with a GPU",
        rule=RULE,
    )
