"""A multi-model endpoint on GPUs takes instance types with exactly one."""

from __future__ import annotations

from triton_models.errors import Problem
from triton_models.instances import DEFAULT_INSTANCE_TYPE, INSTANCE_TYPES, InstanceType

RULE = "multi-model-one-gpu"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-endpoint-instance.html"


def multi_model_gpu(instance: InstanceType, *, where: str) -> Problem | None:
    """The problem with serving a multi-model endpoint from this instance type."""
    if instance.gpu_count == 1:
        return None
    documented = [known.name for known in _documented()]
    sibling = f"{instance.name.rsplit('.', 1)[0]}.2xlarge"
    better = sibling if sibling in documented else DEFAULT_INSTANCE_TYPE
    if instance.gpu is None:
        what = f"{instance.name} has no GPU"
        why = "the models are served by GPU backends, and the plans are compiled for a GPU"
    else:
        what = f"{instance.name} has {instance.gpu_count} GPUs"
        why = "SageMaker takes multi-model endpoints on types with one GPU only, and says so at deployment"
    return Problem(
        what=what,
        where=where,
        expected=f"a type with one GPU: {', '.join(documented)}",
        why=why,
        fix=f"use {better}, and more instances for more throughput",
        rule=RULE,
    )


def _documented() -> list[InstanceType]:
    return [
        known for known in INSTANCE_TYPES.values() if known.gpu_count == 1 and known.multi_model_documented
    ]
