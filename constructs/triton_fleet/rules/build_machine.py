"""Where models are built when nobody says: on the serving GPU, and where it costs nothing while idle."""

from __future__ import annotations

from typing import Literal

from triton_fleet.build_machines.on_demand import BUILD_MACHINES
from triton_fleet.build_machines.processing import processing_type
from triton_fleet.build_machines.reserved import RESERVED_MACHINES, RESERVED_REGIONS
from triton_fleet.rules.build_gpu import RULE, build_region
from triton_models.errors import Problem
from triton_models.instances import DEFAULT_INSTANCE_TYPE, InstanceType

SOURCES = (
    "https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-compute-types.html",
    "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProcessingClusterConfig.html",
)

Automatic = Literal["on demand", "processing job"]


def automatic_machine(instance: InstanceType, region: str | None) -> Automatic | None:
    """Where to compile for an instance type with a GPU; None if nothing that is free while idle can.

    CodeBuild on demand comes first: its builds start sooner than a Processing job, which first gets an
    instance and pulls the image.
    """
    gpu = instance.gpu
    if gpu is not None and gpu.name in BUILD_MACHINES and build_region(gpu, region, where="") is None:
        return "on demand"
    return "processing job" if processing_type(instance) is not None else None


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
