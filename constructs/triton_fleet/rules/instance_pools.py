"""Instance types that stand in for each other: at most five, each once, all able to run the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triton_models.base.errors import Problem
from triton_models.facts.instances import Gpu, InstanceType

RULE = "instance-pools"
MULTI_MODEL_RULE = "multi-model-pools"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-heterogeneous.html"

MOST = 5
"""Instance types of one variant."""


def instance_pools(types: Sequence[str], *, where: str) -> Iterator[Problem]:
    """The problems with trying these instance types in this order.

    Args:
        types: Their names, the preferred first.
        where: What the problems are reported for.
    """
    if len(types) > MOST:
        yield Problem(
            what=f"{len(types)} instance types for one variant",
            where=where,
            expected=f"at most {MOST}, the preferred one among them",
            why="SageMaker knows five priorities",
            fix="leave the least preferred types out",
            rule=RULE,
        )
    for name in sorted({each for each in types if types.count(each) > 1}):
        yield Problem(
            what=f"{name} is named {types.count(name)} times",
            where=where,
            expected="each instance type once",
            why="a type without capacity has no capacity a second time either",
            fix="name it once, in the place where it is to be tried first",
            rule=RULE,
        )


def multi_model_pools(types: Sequence[str], *, asked: bool, where: str) -> Problem | None:
    """The problem with several instance types behind a multi-model endpoint.

    Args:
        types: Their names, the preferred first.
        asked: Whether the caller accepts what AWS does not document.
        where: What the problem is reported for.
    """
    if asked or len(types) == 1:
        return None
    return Problem(
        what=f"{len(types)} instance types for a multi-model endpoint: {', '.join(types)}",
        where=where,
        expected="one instance type",
        why="AWS documents pools for single-model endpoints and inference components only",
        fix="leave instance_pools out, or try it with undocumented_instance_pools=True",
        rule=MULTI_MODEL_RULE,
    )


def same_gpu(preferred: InstanceType, other: InstanceType, *, where: str) -> Problem | None:
    """The problem with running the very same model on two instance types."""
    if preferred.gpu == other.gpu:
        return None
    return Problem(
        what=f"{other.name} has {_named(other.gpu)}, {preferred.name} has {_named(preferred.gpu)}",
        where=where,
        expected=f"instance types that all have {_named(preferred.gpu)}",
        why="a TensorRT plan and the image are for one GPU model: on another, every load would fail",
        fix=f"choose sizes of the family of {preferred.name}; a single-model endpoint may give each type an "
        "artifact of its own",
        rule=RULE,
    )


def same_image(preferred: InstanceType, other: InstanceType, *, where: str) -> Problem | None:
    """The problem with starting both on one host image, whatever model each has."""
    if (preferred.gpu is None) == (other.gpu is None):
        return None
    return Problem(
        what=f"{other.name} has {_named(other.gpu)}, {preferred.name} has {_named(preferred.gpu)}",
        where=where,
        expected="instance types that all have a GPU, or none that has one",
        why="a variant has one host AMI, and the one with a GPU driver starts on GPU types only",
        fix="serve the other type from a variant of its own",
        rule=RULE,
    )


def _named(gpu: Gpu | None) -> str:
    return "no GPU" if gpu is None else f"GPU {gpu.name}"
