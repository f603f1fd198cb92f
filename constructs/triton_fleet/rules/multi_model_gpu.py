"""A multi-model endpoint takes instance types with one GPU, or with none."""

from __future__ import annotations

from triton_models.base.errors import Problem
from triton_models.facts.instances import DEFAULT_INSTANCE_TYPE, INSTANCE_TYPES, InstanceType

RULE = "multi-model-one-gpu"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-endpoint-instance.html"


def multi_model_gpu(instance: InstanceType, *, where: str) -> Problem | None:
    """The problem with serving a multi-model endpoint from this instance type."""
    if instance.gpu is None or instance.gpu_count == 1:  # every type without one is fine
        return None
    documented = [known.name for known in _documented()]
    sibling = f"{instance.name.rsplit('.', 1)[0]}.2xlarge"
    better = sibling if sibling in documented else DEFAULT_INSTANCE_TYPE
    return Problem(
        what=f"{instance.name} has {instance.gpu_count} GPUs",
        where=where,
        expected=f"a type with one GPU: {', '.join(documented)}",
        why="SageMaker takes multi-model endpoints on types with one GPU only, and says so at deployment",
        fix=f"use {better}, and more instances for more throughput",
        rule=RULE,
    )


def _documented() -> list[InstanceType]:
    return [
        known for known in INSTANCE_TYPES.values() if known.gpu_count == 1 and known.multi_model_documented
    ]
