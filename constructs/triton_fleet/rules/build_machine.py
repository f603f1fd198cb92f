"""Somewhere that costs nothing while idle has the GPU that models are compiled for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from triton_models.build_machines.automatic import Automatic, automatic_machine
from triton_models.build_machines.reserved import RESERVED_MACHINES, RESERVED_REGIONS
from triton_models.errors import Problem
from triton_models.instances import DEFAULT_INSTANCE_TYPE, Gpu, InstanceType

RULE = "build-gpu-is-serving-gpu"
# Read on 2026-11-21.
SOURCES = (
    "https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-compute-types.html",
    "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProcessingClusterConfig.html",
)

_AUTOMATIC: Mapping[Automatic, str] = MappingProxyType(
    {"on demand": "on demand in CodeBuild", "processing job": "in a SageMaker Processing job"}
)
_RESERVE = "give ModelBuilds machine=ReservedMachines(base_capacity=1)"
_BY_HAND = "compile on a machine that has the GPU, with `fleet build --gpu`, and leave the build job out"


def nowhere_to_build(instance: InstanceType, region: str | None, *, where: str) -> Problem | None:
    """The problem with compiling for an instance type with a GPU, where nothing is free while idle."""
    if instance.gpu is None or automatic_machine(instance, region) is not None:
        return None
    reserved = _can_be_reserved(instance.gpu, region)
    return Problem(
        what=f"neither CodeBuild on demand nor a SageMaker Processing job has {instance.gpu.name}",
        where=where,
        expected=f"an instance type whose GPU one of them has, such as {DEFAULT_INSTANCE_TYPE}",
        why="a TensorRT plan runs only on the GPU model that compiled it"
        + (", and a reserved machine is billed while it is idle, so it is never taken unasked" * reserved),
        fix=f"{_RESERVE}, or {_BY_HAND}" if reserved else _BY_HAND,
        rule=RULE,
    )


def another_way(instance: InstanceType, region: str | None) -> str:
    """What to do instead, for the fix of a rule that refuses a machine which was asked for.

    To leave the machine open helps only where something is then chosen: elsewhere `nowhere_to_build` would
    refuse that as well.
    """
    chosen = automatic_machine(instance, region)
    if chosen is not None:
        return f"leave `machine` out: builds then run {_AUTOMATIC[chosen]}"
    reserved = instance.gpu is not None and _can_be_reserved(instance.gpu, region)
    return "; or ".join(
        [
            *([f"{_RESERVE}, billed while it exists"] if reserved else []),
            f"serve from another instance type, such as {DEFAULT_INSTANCE_TYPE}",
            "give ModelBuilds an instance type without a GPU: it compiles no plan, and its models run on any",
            _BY_HAND,
        ]
    )


def _can_be_reserved(gpu: Gpu, region: str | None) -> bool:
    return gpu.name in RESERVED_MACHINES and (region is None or region in RESERVED_REGIONS)
