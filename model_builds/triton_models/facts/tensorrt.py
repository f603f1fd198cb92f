"""The types, precisions and plans that TensorRT supports.

Levels of hardware compatibility: NvInfer.h of 11.1, and trtexec's options at the tags v8.6.1 to v11.1, read
on 2026-11-22.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from triton_models.base.errors import Problem
from triton_models.facts.instances import Gpu
from triton_models.facts.releases import Release

Precision: TypeAlias = Literal["fp32", "tf32", "fp16"]
Hardware: TypeAlias = Literal["this-gpu", "same-compute-capability", "ampere+"]

PLAN_TYPES = frozenset(
    {
        "TYPE_BF16",
        "TYPE_BOOL",
        "TYPE_FP16",
        "TYPE_FP32",
        "TYPE_INT32",
        "TYPE_INT64",
        "TYPE_INT8",
        "TYPE_UINT8",
    }
)
"""The types of a plan's tensors: ConvertTrtTypeToConfigDataType of tensorrt_backend, read 2026-11-21."""

# trtexec's names for the levels of hardware compatibility, and the first compute capability of Ampere.
# https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/advanced.html, read 2026-11-22
SAME_COMPUTE_CAPABILITY, AMPERE_PLUS = "sameComputeCapability", "ampere+"
AMPERE = "8.0"

LEVELS: Mapping[str, str] = MappingProxyType(
    {"same-compute-capability": SAME_COMPUTE_CAPABILITY, "ampere+": AMPERE_PLUS}
)
"""trtexec's name for the hardware of a plan that runs on more than one GPU model."""

# The first TensorRT that has the level, and the lowest compute capability that compiles with it.
_LEVELS_SINCE: Mapping[str, tuple[tuple[int, int], str]] = MappingProxyType(
    {"same-compute-capability": ((10, 9), "7.5"), "ampere+": ((8, 6), AMPERE)}
)


def hardware_problems(
    hardware: str, *, release: Release | None, gpu: Gpu | None, where: str
) -> Iterator[Problem]:
    """Yield the reasons why a plan for this hardware cannot be compiled.

    Args:
        hardware: The declared hardware, one of `Hardware`.
        release: The release whose TensorRT compiles; None to check the GPU only.
        gpu: The GPU that compiles; None if unknown.
        where: The declaration, for messages.
    """
    if hardware not in _LEVELS_SINCE:
        return
    since, oldest = _LEVELS_SINCE[hardware]
    if release is not None and tuple(map(int, release.tensorrt.split(".")[:2])) < since:
        yield Problem(
            what=f"hardware {hardware!r} with TensorRT {release.tensorrt} of release {release.name}",
            where=where,
            expected=f"TensorRT {since[0]}.{since[1]} or newer",
            why="its trtexec refuses to start with that level of hardware compatibility",
            fix='use a newer release, or hardware="this-gpu"',
            rule="plan-hardware",
        )
    if gpu is not None and float(gpu.compute_capability) < float(oldest):
        yield Problem(
            what=f"hardware {hardware!r} on {gpu.name}, compute capability {gpu.compute_capability}",
            where=where,
            expected=f"a GPU of compute capability {oldest} or newer",
            why="TensorRT compiles such plans on those GPUs only",
            fix='build on a newer GPU, or use hardware="this-gpu"',
            rule="plan-hardware",
        )


def major(release: Release) -> int:
    """Return the major version of a release's TensorRT."""
    return int(release.tensorrt.partition(".")[0])
