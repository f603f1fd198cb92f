"""A Processing job runs on an instance type that SageMaker offers for one, with the GPU that serves."""

from __future__ import annotations

from triton_fleet.rules.build_machine import RULE, WHY, another_way
from triton_models.base.errors import Problem
from triton_models.facts.build_machines.processing import PROCESSING_TYPES, SOURCE, has_gpu, processing_type
from triton_models.facts.instances import InstanceType

__all__ = ["RULE", "SOURCE", "processing_gpu", "processing_instance"]


def processing_gpu(instance: InstanceType, region: str | None, *, where: str) -> Problem | None:
    """The problem with compiling in a Processing job for this instance type, if it has a GPU."""
    if instance.gpu is None or processing_type(instance) is not None:
        return None
    return Problem(
        what=f"SageMaker has no Processing job on {instance.name}, nor on another type with its GPU, "
        f"{instance.gpu.name}",
        where=where,
        expected=f"an instance type of one of the families {', '.join(_families())}",
        why=WHY,
        fix=another_way(instance, region),
        rule=RULE,
    )


def processing_instance(name: str, instance: InstanceType, *, where: str) -> Problem | None:
    """The problem with running the job on this type; `processing_gpu` reports a GPU that no type has."""
    fitting = [each for each in PROCESSING_TYPES if has_gpu(each, instance.gpu)]
    if instance.gpu is None or not fitting or name in fitting:
        return None
    return Problem(
        what=f"a Processing job on {name!r} is asked for",
        where=where,
        expected=f"a type with the GPU of {instance.name}, {instance.gpu.name}: {', '.join(fitting)}",
        why=WHY,
        fix="name one of those, or leave the job's instance_type out, which takes "
        f"{processing_type(instance)}",
        rule=RULE,
    )


def _families() -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.rsplit(".", 1)[0] for name in PROCESSING_TYPES))
