"""A Processing job runs on an instance type that SageMaker offers for one, with the GPU that serves."""

from __future__ import annotations

from triton_models.build_machines.processing import PROCESSING_TYPES, SOURCE, has_gpu, processing_type
from triton_models.errors import Problem
from triton_models.instances import InstanceType

__all__ = ["RULE", "SOURCE", "processing_gpu", "processing_instance"]

RULE = "build-gpu-is-serving-gpu"


def processing_gpu(instance: InstanceType, *, where: str) -> Problem | None:
    """The problem with compiling for this instance type in a Processing job."""
    if processing_type(instance) is not None:
        return None
    gpu = instance.gpu.name if instance.gpu else "no GPU"
    return Problem(
        what=f"SageMaker has no Processing job on {instance.name} ({gpu}), nor on another type with its GPU",
        where=where,
        expected=f"an instance type of the families of {', '.join(_families())}",
        why="a TensorRT plan runs only on the GPU model that compiled it",
        fix="leave `machine` out, which chooses a machine that there is",
        rule=RULE,
    )


def processing_instance(name: str, instance: InstanceType, *, where: str) -> Problem | None:
    """The problem with running the job on an instance type that was asked for."""
    fitting = [each for each in PROCESSING_TYPES if has_gpu(each, instance.gpu)]
    if name in fitting:
        return None
    return Problem(
        what=f"a Processing job on {name!r}",
        where=where,
        expected=f"one of {', '.join(fitting) or 'none: there is no such job with this GPU'}",
        why="a TensorRT plan runs only on the GPU model that compiled it",
        fix=f"name one of those, or none, for {processing_type(instance) or 'another machine'}",
        rule=RULE,
    )


def _families() -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.rsplit(".", 1)[0] for name in PROCESSING_TYPES))
