"""A reserved-capacity fleet has the GPU that serves, in a region that has such fleets."""

from __future__ import annotations

from triton_fleet.rules.build_machine import RULE, WHY, another_way
from triton_models.base.errors import Problem
from triton_models.facts.build_machines.reserved import RESERVED_MACHINES, RESERVED_REGIONS, SOURCE
from triton_models.facts.instances import InstanceType

__all__ = ["RULE", "SOURCE", "reserved_gpu", "reserved_region"]


def reserved_gpu(instance: InstanceType, region: str | None, *, where: str) -> Problem | None:
    """The problem with reserving a build machine that has the GPU of this instance type, if it has one."""
    gpu = instance.gpu
    if gpu is None or gpu.name in RESERVED_MACHINES:
        return None
    return Problem(
        what=f"CodeBuild reserves no machine with {gpu.name}",
        where=where,
        expected=f"an instance type with one of {', '.join(RESERVED_MACHINES)}",
        why=WHY,
        fix=another_way(instance, region),
        rule=RULE,
    )


def reserved_region(instance: InstanceType, region: str | None, *, where: str) -> Problem | None:
    """The problem with reserving a GPU in this region; none where the region is not known yet."""
    if region is None or region in RESERVED_REGIONS:
        return None
    return Problem(
        what=f"CodeBuild reserves no GPU in region {region!r}",
        where=where,
        expected=f"one of {', '.join(RESERVED_REGIONS)}",
        why="the fleet would be refused when it is created",
        fix=f"deploy to one of those regions, or {another_way(instance, region)}",
        rule=RULE,
    )
