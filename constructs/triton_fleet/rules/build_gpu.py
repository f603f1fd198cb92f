"""A TensorRT plan is compiled on the GPU model that serves it, so CodeBuild must offer that GPU."""

from __future__ import annotations

from triton_fleet.rules.build_machine import RULE, WHY, another_way
from triton_models.base.errors import Problem
from triton_models.facts.build_machines.on_demand import BUILD_MACHINES
from triton_models.facts.instances import InstanceType

__all__ = ["RULE", "SOURCE", "build_gpu", "build_region"]

# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-compute-types.html"


def build_gpu(instance: InstanceType, region: str | None, *, where: str) -> Problem | None:
    """The problem with compiling on demand in CodeBuild for this instance type, if it has a GPU."""
    gpu = instance.gpu
    if gpu is None or gpu.name in BUILD_MACHINES:
        return None
    return Problem(
        what=f"CodeBuild has no {gpu.name} on demand",
        where=where,
        expected=f"an instance type with {' or '.join(BUILD_MACHINES)}",
        why=WHY,
        fix=another_way(instance, region),
        rule=RULE,
    )


def build_region(instance: InstanceType, region: str | None, *, where: str) -> Problem | None:
    """The problem with renting its GPU in this region; none where the region is not known yet."""
    machine = BUILD_MACHINES.get(instance.gpu.name) if instance.gpu is not None else None
    if machine is None or machine.gpu is None or machine.offered_in(region):
        return None
    return Problem(
        what=f"CodeBuild has no {machine.gpu.name} in region {region!r}",
        where=where,
        expected=f"one of {', '.join(machine.regions or ())}",
        why="the build project would be created, and every build refused",
        fix=f"deploy to one of those regions, or {another_way(instance, region)}",
        rule=RULE,
    )
