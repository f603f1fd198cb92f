"""A reserved-capacity fleet has the GPU that serves, in a region that has such fleets."""

from __future__ import annotations

from triton_models.build_machines.reserved import RESERVED_MACHINES, RESERVED_REGIONS, SOURCE
from triton_models.errors import Problem
from triton_models.instances import Gpu

__all__ = ["RULE", "SOURCE", "reserved_gpu", "reserved_region"]

RULE = "build-gpu-is-serving-gpu"
_INSTEAD = "leave `machine` out, which chooses a machine that there is"


def reserved_gpu(gpu: Gpu, *, where: str) -> Problem | None:
    """The problem with reserving a build machine that has this GPU."""
    if gpu.name in RESERVED_MACHINES:
        return None
    return Problem(
        what=f"CodeBuild reserves no machine with {gpu.name}",
        where=where,
        expected=f"an instance type with one of {', '.join(RESERVED_MACHINES)}",
        why="a TensorRT plan runs only on the GPU model that compiled it",
        fix=_INSTEAD,
        rule=RULE,
    )


def reserved_region(region: str | None, *, where: str) -> Problem | None:
    """The problem with reserving a GPU in this region; none where the region is not known yet."""
    if region is None or region in RESERVED_REGIONS:
        return None
    return Problem(
        what=f"CodeBuild reserves no GPU in region {region!r}",
        where=where,
        expected=f"one of {', '.join(RESERVED_REGIONS)}",
        why="the fleet would be refused when it is created",
        fix=f"{_INSTEAD}, or deploy to one of those regions",
        rule=RULE,
    )
