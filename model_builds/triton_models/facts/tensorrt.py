"""The types, precisions and plans that TensorRT supports.

Levels of hardware compatibility: NvInfer.h of 11.1, and trtexec's options at the tags v8.6.1 to v11.1, read
on 2026-11-22.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from triton_models.base.errors import Problem
from triton_models.facts.instances import Gpu
from triton_models.facts.releases import Release

Precision: TypeAlias = Literal["fp32", "tf32", "fp16", "bf16", "int8", "fp8"]
Hardware: TypeAlias = Literal["this-gpu", "same-compute-capability", "ampere+"]

TENSORRT_VERSION = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){1,3}")

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

# The backend splits the paths at semicolons (src/tensorrt.cc of tensorrt_backend), the server its setting at
# commas, and the start script its arguments at spaces (docker/sagemaker/serve of server); read 2026-11-24.
_PLUGIN = re.compile(r"/[^\s;,*?\[\]]+\.so(?:\.[0-9]+)*")

PLUGIN_RULE = "an absolute path that ends with .so, without spaces, semicolons, commas or wildcards"
"""The valid paths of plugins."""

AMPERE = "8.0"

QUANTIZED: frozenset[Precision] = frozenset({"int8", "fp8"})
"""The precisions that an ONNX file brings itself, by QuantizeLinear and DequantizeLinear."""

# The first TensorRT with which plans are built here, and the lowest compute capability that has the
# arithmetic: "Hardware and Precision" in NVIDIA's support matrices, read 2026-11-24. TensorRT 8 has no
# --stronglyTyped.
_PRECISIONS_SINCE: Mapping[Precision, tuple[int, str]] = MappingProxyType(
    {"bf16": (10, AMPERE), "int8": (10, "7.5"), "fp8": (10, "8.9")}
)

# trtexec's names for the levels of hardware compatibility, and the first compute capability of Ampere.
# https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/advanced.html, read 2026-11-22
SAME_COMPUTE_CAPABILITY, AMPERE_PLUS = "sameComputeCapability", "ampere+"

LEVELS: Mapping[str, str] = MappingProxyType(
    {"same-compute-capability": SAME_COMPUTE_CAPABILITY, "ampere+": AMPERE_PLUS}
)
"""trtexec's name for the hardware of a plan that runs on more than one GPU model."""

# The first TensorRT that has the level, and the lowest compute capability that compiles with it.
_LEVELS_SINCE: Mapping[str, tuple[tuple[int, int], str]] = MappingProxyType(
    {"same-compute-capability": ((10, 9), "7.5"), "ampere+": ((8, 6), AMPERE)}
)


def is_plugin(path: str) -> bool:
    """Return True if a path can be that of a library of TensorRT plugins, on every way to the server."""
    return _PLUGIN.fullmatch(path) is not None


def plan_problems(
    precision: Precision, hardware: Hardware, *, release: Release | None, gpu: Gpu | None, where: str
) -> Iterator[Problem]:
    """Yield the reasons why a plan of this precision for this hardware cannot be compiled.

    Args:
        precision: The declared precision.
        hardware: The declared hardware.
        release: The release whose TensorRT compiles; None to check the GPU only.
        gpu: The GPU that compiles; None if unknown.
        where: The declaration, for messages.
    """
    yield from hardware_problems(hardware, release=release, gpu=gpu, where=where)
    yield from precision_problems(precision, release=release, gpu=gpu, where=where)


def precision_problems(
    precision: Precision, *, release: Release | None, gpu: Gpu | None, where: str
) -> Iterator[Problem]:
    """Yield the reasons why a plan of this precision cannot be compiled.

    Args:
        precision: The declared precision.
        release: The release whose TensorRT compiles; None to check the GPU only.
        gpu: The GPU that compiles; None if unknown.
        where: The declaration, for messages.
    """
    if precision not in _PRECISIONS_SINCE:
        return
    since, oldest = _PRECISIONS_SINCE[precision]
    if release is not None and major(release) < since:
        yield Problem(
            what=f"precision {precision!r} with TensorRT {release.tensorrt} of release {release.name}",
            where=where,
            expected=f"TensorRT {since} or newer",
            why="older versions cannot take the types of a network from its file",
            fix='use a newer release, or precision="fp16"',
            rule="plan-precision",
        )
    if gpu is not None and float(gpu.compute_capability) < float(oldest):
        yield Problem(
            what=f"precision {precision!r} on {gpu.name}, compute capability {gpu.compute_capability}",
            where=where,
            expected=f"a GPU of compute capability {oldest} or newer",
            why="older GPUs lack the arithmetic",
            fix='choose an instance type with such a GPU, or precision="fp16"',
            rule="plan-precision",
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
