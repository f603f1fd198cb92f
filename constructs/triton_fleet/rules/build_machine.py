"""Somewhere that costs nothing while idle has the GPU that models are compiled for."""

from __future__ import annotations

from triton_fleet.rules.build_gpu import RULE
from triton_models.build_machines.automatic import automatic_machine
from triton_models.build_machines.reserved import RESERVED_MACHINES, RESERVED_REGIONS
from triton_models.errors import Problem
from triton_models.instances import DEFAULT_INSTANCE_TYPE, InstanceType

SOURCES = (
    "https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-compute-types.html",
    "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProcessingClusterConfig.html",
)


def nowhere_to_build(instance: InstanceType, region: str | None, *, where: str) -> Problem | None:
    """The problem with compiling for an instance type with a GPU, where nothing is free while idle."""
    if instance.gpu is None or automatic_machine(instance, region) is not None:
        return None
    name = instance.gpu.name
    reserved = name in RESERVED_MACHINES and (region is None or region in RESERVED_REGIONS)
    by_hand = "compile on a machine that has the GPU, with `fleet build --gpu`, and leave the build job out"
    return Problem(
        what=f"neither CodeBuild on demand nor a SageMaker Processing job has {name}",
        where=where,
        expected=f"an instance type whose GPU one of them has, such as {DEFAULT_INSTANCE_TYPE}",
        why="a TensorRT plan runs only on the GPU model that compiled it"
        + (", and a reserved machine is billed while it is idle, so it is never taken unasked" * reserved),
        fix=f"give ModelBuilds machine=ReservedMachines(base_capacity=1), or {by_hand}"
        if reserved
        else by_hand,
        rule=RULE,
    )
