"""Somewhere that costs nothing while idle has the GPU that models are compiled for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from triton_models.artifact.built_for import runs_on
from triton_models.base.errors import Problem
from triton_models.facts.build_machines.automatic import Automatic, automatic_machine
from triton_models.facts.build_machines.reserved import RESERVED_MACHINES, RESERVED_REGIONS
from triton_models.facts.instances import DEFAULT_INSTANCE_TYPE, InstanceType, instance_type
from triton_models.facts.tensorrt import AMPERE_PLUS

RULE = "build-gpu-is-serving-gpu"
# Read on 2026-11-21.
SOURCES = (
    "https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-compute-types.html",
    "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProcessingClusterConfig.html",
)

_AUTOMATIC: Mapping[Automatic, str] = MappingProxyType(
    {"on demand": "on demand in CodeBuild", "processing job": "in a SageMaker Processing job"}
)
WHY = "a TensorRT plan runs only on the GPU model that compiled it, unless TensorRt(hardware=...) says more"
_BY_HAND = "compile on a machine that has the GPU, with `fleet build --gpu`, and leave the build job out"


def nowhere_to_build(instance: InstanceType, region: str | None, *, where: str) -> Problem | None:
    """The problem with compiling for an instance type with a GPU, where nothing is free while idle."""
    if instance.gpu is None or automatic_machine(instance, region) is not None:
        return None
    reserve = list(_reserve(instance, region))
    return Problem(
        what=f"neither CodeBuild on demand nor a SageMaker Processing job has {instance.gpu.name}",
        where=where,
        expected=f"an instance type whose GPU one of them has, such as {DEFAULT_INSTANCE_TYPE}",
        why=WHY + "; a reserved machine is billed while idle, so it is never taken unasked" * bool(reserve),
        fix="; or ".join([*reserve, *_on_another_gpu(instance, region), _BY_HAND]),
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
    return "; or ".join(
        [
            *_reserve(instance, region),
            *_on_another_gpu(instance, region),
            f"serve from another instance type, such as {DEFAULT_INSTANCE_TYPE}",
            "give ModelBuilds an instance type without a GPU: it compiles no plan, and its models run on any",
            _BY_HAND,
        ]
    )


def _reserve(instance: InstanceType, region: str | None) -> Iterator[str]:
    gpu = instance.gpu
    if gpu is not None and gpu.name in RESERVED_MACHINES and (region is None or region in RESERVED_REGIONS):
        yield "give ModelBuilds machine=ReservedMachines(base_capacity=1), billed while it exists"


def _on_another_gpu(instance: InstanceType, region: str | None) -> Iterator[str]:
    """Compiling on the GPU of the default instance type, for those that its plans can be made for."""
    other = instance_type(DEFAULT_INSTANCE_TYPE)
    gpu = instance.gpu
    if gpu is None or gpu == other.gpu or automatic_machine(other, region) is None:
        return
    if runs_on(AMPERE_PLUS, built=other.gpu, gpu=gpu):
        yield (
            'declare every plan with TensorRt(hardware="ampere+"), and give ModelBuilds '
            f'instance_type="{DEFAULT_INSTANCE_TYPE}"'
        )
