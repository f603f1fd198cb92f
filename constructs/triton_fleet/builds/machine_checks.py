"""Checks of the machines that compile models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from triton_models.artifact.targets import runs_on
from triton_models.base.checks import Check, Report
from triton_models.facts.build_machines import (
    BUILD_MACHINES,
    PROCESSING_TYPES,
    RESERVED_MACHINES,
    RESERVED_REGIONS,
    Automatic,
    automatic_machine,
    has_gpu,
    processing_type,
)
from triton_models.facts.instances import DEFAULT_INSTANCE_TYPE, InstanceType, instance_type
from triton_models.facts.tensorrt import AMPERE_PLUS

BUILD_GPU_IS_SERVING_GPU = Check(
    id="build-gpu-is-serving-gpu",
    source=(
        "2026-11-21: https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-compute-types.html"
        " https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProcessingClusterConfig.html"
    ),
)
"""Somewhere that costs nothing while idle has the GPU that models are compiled for."""

_AUTOMATIC: Mapping[Automatic, str] = MappingProxyType(
    {"on demand": "on demand in CodeBuild", "processing job": "in a SageMaker Processing job"}
)
WHY = "a plan runs only on its own GPU model, unless TensorRt(hardware=...) allows more"
_BY_HAND = "compile on a machine that has the GPU, with `fleet build --gpu`, and leave the build job out"


def nowhere_to_build(report: Report, instance: InstanceType, region: str | None) -> None:
    """Report problems with compiling for an instance type with a GPU, where nothing is free while idle."""
    if instance.gpu is None or automatic_machine(instance, region) is not None:
        return
    reserve = list(_reserve(instance, region))
    report(
        BUILD_GPU_IS_SERVING_GPU,
        f"neither CodeBuild on demand nor a SageMaker Processing job has {instance.gpu.name}",
        fix="; or ".join([*reserve, *_on_another_gpu(instance, region), _BY_HAND]),
        why="a reserved machine is billed while idle, so it is never chosen unasked" if reserve else WHY,
    )


def another_way(instance: InstanceType, region: str | None) -> str:
    """The fix of a check that refuses a machine which was asked for.

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
            "give ModelBuildProject an instance type without a GPU: its models run on any",
            _BY_HAND,
        ]
    )


def _reserve(instance: InstanceType, region: str | None) -> Iterator[str]:
    gpu = instance.gpu
    if gpu is not None and gpu.name in RESERVED_MACHINES and (region is None or region in RESERVED_REGIONS):
        yield "give ModelBuildProject machine=ReservedMachines(base_capacity=1), billed while it exists"


def _on_another_gpu(instance: InstanceType, region: str | None) -> Iterator[str]:
    """Compiling on the GPU of the default instance type, for those that its plans can be made for."""
    other = instance_type(DEFAULT_INSTANCE_TYPE)
    gpu = instance.gpu
    if gpu is None or gpu == other.gpu or automatic_machine(other, region) is None:
        return
    if runs_on(AMPERE_PLUS, built=other.gpu, gpu=gpu):
        yield (
            'declare every plan with TensorRt(hardware="ampere+"), and give ModelBuildProject '
            f'instance_type="{DEFAULT_INSTANCE_TYPE}"'
        )


def build_gpu(report: Report, instance: InstanceType, region: str | None) -> None:
    """Report problems with compiling on demand in CodeBuild for this instance type, if it has a GPU."""
    gpu = instance.gpu
    if gpu is None or gpu.name in BUILD_MACHINES:
        return
    report(
        BUILD_GPU_IS_SERVING_GPU,
        f"CodeBuild has no {gpu.name} on demand",
        fix=another_way(instance, region),
        why=WHY,
    )


def build_region(report: Report, instance: InstanceType, region: str | None) -> None:
    """Report problems with renting its GPU in this region; none where the region is not known yet."""
    machine = BUILD_MACHINES.get(instance.gpu.name) if instance.gpu is not None else None
    if machine is None or machine.gpu is None or machine.offered_in(region):
        return
    report(
        BUILD_GPU_IS_SERVING_GPU,
        f"CodeBuild has no {machine.gpu.name} in region {region!r}",
        fix=f"deploy to {' or '.join(machine.regions or ())}, or {another_way(instance, region)}",
        why="the build project would be created, and every build refused",
    )


def processing_gpu(report: Report, instance: InstanceType, region: str | None) -> None:
    """Report problems with compiling in a Processing job for this instance type, if it has a GPU."""
    if instance.gpu is None or processing_type(instance) is not None:
        return
    report(
        BUILD_GPU_IS_SERVING_GPU,
        f"SageMaker has no Processing job on {instance.name}, nor on another type with its GPU, "
        f"{instance.gpu.name}",
        fix=another_way(instance, region),
        why=WHY,
    )


def processing_instance(report: Report, name: str, instance: InstanceType) -> None:
    """Report problems with running the job on this type; `processing_gpu` reports a GPU that no type has."""
    fitting = [each for each in PROCESSING_TYPES if has_gpu(each, instance.gpu)]
    if instance.gpu is None or not fitting or name in fitting:
        return
    report(
        BUILD_GPU_IS_SERVING_GPU,
        f"a Processing job on {name!r} is asked for",
        fix=f"use {' or '.join(fitting)}, or leave instance_type out for {processing_type(instance)}",
        why=WHY,
    )


def _families() -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.rsplit(".", 1)[0] for name in PROCESSING_TYPES))


def reserved_gpu(report: Report, instance: InstanceType, region: str | None) -> None:
    """Report problems with reserving a build machine that has the GPU of this instance type."""
    gpu = instance.gpu
    if gpu is None or gpu.name in RESERVED_MACHINES:
        return
    report(
        BUILD_GPU_IS_SERVING_GPU,
        f"CodeBuild reserves no machine with {gpu.name}",
        fix=another_way(instance, region),
        why=WHY,
    )


def reserved_region(report: Report, instance: InstanceType, region: str | None) -> None:
    """Report problems with reserving a GPU in this region; none where the region is not known yet."""
    if region is None or region in RESERVED_REGIONS:
        return
    report(
        BUILD_GPU_IS_SERVING_GPU,
        f"CodeBuild reserves no GPU in region {region!r}",
        fix=f"deploy to {', '.join(RESERVED_REGIONS)}, or {another_way(instance, region)}",
        why="the fleet would be refused when it is created",
    )
