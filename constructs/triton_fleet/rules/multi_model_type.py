"""A multi-model endpoint runs on an instance type that AWS lists for one, unless another is asked for."""

from __future__ import annotations

from triton_models.base.errors import Problem
from triton_models.facts.instances import DEFAULT_INSTANCE_TYPE, InstanceType

RULE = "multi-model-type"
# Read on 2026-11-21: of those with a GPU ml.p2, ml.p3, ml.g4dn and ml.g5 are listed. SageMaker keeps a list
# of its own, and refused ml.g4dn before that was on it (sagemaker-python-sdk issue 1323).
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-support.html"


def multi_model_type(instance: InstanceType, *, asked: bool, where: str) -> Problem | None:
    """The problem with serving a multi-model endpoint from this instance type.

    Args:
        instance: The instance type.
        asked: Whether a type that AWS does not list was asked for in so many words.
        where: What the problem is reported for.
    """
    if asked or instance.multi_model_documented or instance.gpu_count > 1:  # several: see multi_model_gpu
        return None
    return Problem(
        what=f"{instance.name} is not on AWS's list for multi-model endpoints",
        where=where,
        expected="an ml.g4dn or ml.g5 type with one GPU, or a type without one",
        why="SageMaker may refuse it, and would only at deployment",
        fix=f"use {DEFAULT_INSTANCE_TYPE}, or try it with undocumented_instance_type",
        rule=RULE,
    )
