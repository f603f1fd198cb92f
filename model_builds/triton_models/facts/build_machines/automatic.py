"""The default build machine: one with the serving GPU that is free of charge while idle."""

from __future__ import annotations

from typing import Literal

from triton_models.facts.build_machines.on_demand import BUILD_MACHINES
from triton_models.facts.build_machines.processing import processing_type
from triton_models.facts.instances import InstanceType

Automatic = Literal["on demand", "processing job"]


def automatic_machine(instance: InstanceType, region: str | None) -> Automatic | None:
    """Return the machine that compiles for an instance type with a GPU; None if none is free while idle.

    CodeBuild on demand comes first: its builds start sooner than a Processing job, which first gets an
    instance and pulls the image.

    Args:
        instance: The endpoint's instance type.
        region: Where it is deployed; None while that is open.
    """
    rented = BUILD_MACHINES.get(instance.gpu.name) if instance.gpu is not None else None
    if rented is not None and rented.offered_in(region):
        return "on demand"
    return "processing job" if processing_type(instance) is not None else None
