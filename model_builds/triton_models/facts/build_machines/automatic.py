"""The default build machine: one that has the endpoint's GPU and costs nothing while idle."""

from __future__ import annotations

from typing import Literal

from triton_models.facts.build_machines.on_demand import BUILD_MACHINES
from triton_models.facts.build_machines.processing import processing_type
from triton_models.facts.instances import InstanceType

Automatic = Literal["on demand", "processing job"]


def automatic_machine(instance: InstanceType, region: str | None) -> Automatic | None:
    """Return the kind of machine that compiles for an instance type with a GPU.

    CodeBuild on demand comes first, because its builds start sooner: a Processing job first waits for an
    instance and pulls the image. None if every machine with that GPU costs money while idle.

    Args:
        instance: The endpoint's instance type.
        region: The region of the endpoint; None if not yet known.
    """
    rented = BUILD_MACHINES.get(instance.gpu.name) if instance.gpu is not None else None
    if rented is not None and rented.offered_in(region):
        return "on demand"
    return "processing job" if processing_type(instance) is not None else None
