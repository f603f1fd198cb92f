"""A TensorRT plan is compiled on the GPU model that serves it, so CodeBuild must offer that GPU."""

from __future__ import annotations

from triton_models.build_machines.on_demand import BUILD_MACHINES
from triton_models.errors import Problem
from triton_models.instances import DEFAULT_INSTANCE_TYPE, Gpu

RULE = "build-gpu-is-serving-gpu"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-compute-types.html"
_ELSEWHERE = "leave `machine` out, which chooses a machine that there is"


def build_gpu(gpu: Gpu, *, where: str) -> Problem | None:
    """The problem with compiling for this GPU on demand in CodeBuild."""
    if gpu.name in BUILD_MACHINES:
        return None
    return Problem(
        what=f"CodeBuild has no {gpu.name} on demand",
        where=where,
        expected=f"an instance type with {' or '.join(BUILD_MACHINES)}",
        why="a TensorRT plan runs only on the GPU model that compiled it",
        fix=f"serve from {DEFAULT_INSTANCE_TYPE}, or {_ELSEWHERE}",
        rule=RULE,
    )


def build_region(gpu: Gpu, region: str | None, *, where: str) -> Problem | None:
    """The problem with renting that GPU in this region; none where the region is not known yet."""
    machine = BUILD_MACHINES.get(gpu.name)
    if machine is None or machine.offered_in(region):
        return None
    return Problem(
        what=f"CodeBuild has no {gpu.name} in region {region!r}",
        where=where,
        expected=f"one of {', '.join(machine.regions or ())}",
        why="the build project would be created, and every build refused",
        fix=f"deploy to one of those regions, or {_ELSEWHERE}",
        rule=RULE,
    )
