"""The types, precisions and plans that TensorRT supports.

Levels of hardware compatibility: NvInfer.h of 11.1, and trtexec's options at the tags v8.6.1 to v11.1, read
on 2026-11-22.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from triton_models.base.checks import Check
from triton_models.base.errors import Problem
from triton_models.facts.instances import Gpu
from triton_models.facts.releases import Release

PLAN_PRECISION = Check(id="plan-precision", source="NVIDIA's support matrices for TensorRT, read 2026-11-24")
PLAN_HARDWARE = Check(id="plan-hardware", source="NvInfer.h of TensorRT 11.1, and trtexec's options")

Precision: TypeAlias = Literal["fp32", "tf32", "fp16", "bf16", "int8", "fp8"]
FilePrecision: TypeAlias = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "int8", "fp8"]
"""What a file may compute in: TensorRT and CUDA's fast operators have no FP64."""

Hardware: TypeAlias = Literal["this-gpu", "same-compute-capability", "ampere+"]

TENSORRT_VERSION = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){1,3}")

PLAN_TYPES = frozenset(
    f"TYPE_{each}" for each in ("BF16", "BOOL", "FP16", "FP32", "INT32", "INT64", "INT8", "UINT8")
)
"""The types of a plan's tensors: ConvertTrtTypeToConfigDataType of tensorrt_backend, read 2026-11-21."""

ENGINE_AT_LOAD_S = (50, 67, 240)
"""Seconds in which ONNX Runtime compiles a network for TensorRT at a load: least, usual, most.

AWS's page on Triton of 2026 states 67 s on an A10G, not kept across restarts; others report 50 s to 4 minutes
(onnxruntime#7499, onnxruntime_backend#66, server#6049). Read 2026-11-28.
"""

FIRST_WITH_INT64 = 10
"""The first TensorRT whose plans keep a network's INT64 inputs; older ones use INT32 (server issue 7307)."""

FIRST_WITH_PROFILES = 10
"""The first TensorRT whose trtexec compiles several profiles: --profile in sampleOptions.cpp of release/8.6
and release/10.0, read 2026-11-26."""

SMALL_BATCH = 4
"""The largest batch of the profile for small batches."""

# The backend splits the paths at semicolons (src/tensorrt.cc of tensorrt_backend), the server its setting at
# commas, and the start script its arguments at spaces (docker/sagemaker/serve of server); read 2026-11-24.
_PLUGIN = re.compile(r"/[^\s;,*?\[\]]+\.so(?:\.[0-9]+)*")

PLUGIN_RULE = "an absolute path that ends with .so, without spaces, semicolons, commas or wildcards"
"""The valid paths of plugins."""

AMPERE = "8.0"

QUANTIZED: frozenset[Precision] = frozenset({"int8", "fp8"})
"""The precisions that an ONNX file brings itself, by QuantizeLinear and DequantizeLinear."""

# trtexec's names for the levels of hardware compatibility, and the first compute capability of Ampere.
# https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/advanced.html, read 2026-11-22
SAME_COMPUTE_CAPABILITY, AMPERE_PLUS = "sameComputeCapability", "ampere+"

LEVELS: Mapping[str, str] = {"same-compute-capability": SAME_COMPUTE_CAPABILITY, "ampere+": AMPERE_PLUS}
"""trtexec's name for the hardware of a plan that runs on more than one GPU model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Requirement:
    """The first TensorRT that compiles an option, and the lowest compute capability, each with the reason."""

    since: tuple[int, ...]
    oldest: str
    why: str
    why_gpu: str


_PRECISION = partial(
    _Requirement,
    since=(10,),
    why="older versions cannot take the types of a network from its file",
    why_gpu="older GPUs lack the arithmetic",
)
_LEVEL = partial(
    _Requirement,
    why="its trtexec refuses to start with that level of hardware compatibility",
    why_gpu="TensorRT compiles such plans on those GPUs only",
)

# Precisions: "Hardware and Precision" in NVIDIA's support matrices, read 2026-11-24; quantized since 10.
_REQUIREMENTS: Mapping[str, _Requirement] = {
    "bf16": _PRECISION(oldest=AMPERE),
    "int8": _PRECISION(oldest="7.5"),
    "fp8": _PRECISION(oldest="8.9"),
    "same-compute-capability": _LEVEL(since=(10, 9), oldest="7.5"),
    "ampere+": _LEVEL(since=(8, 6), oldest=AMPERE),
}


def is_plugin(path: str) -> bool:
    """Return True if a path can be that of a library of TensorRT plugins, on every way to the server."""
    return _PLUGIN.fullmatch(path) is not None


def plan_problems(
    precision: Precision, hardware: Hardware, *, release: Release | None, gpu: Gpu | None, where: str
) -> Iterator[Problem]:
    """Yield the reasons why a plan of this precision for this hardware cannot be compiled."""
    yield from hardware_problems(hardware, release=release, gpu=gpu, where=where)
    yield from precision_problems(precision, release=release, gpu=gpu, where=where)


def precision_problems(
    precision: Precision, *, release: Release | None, gpu: Gpu | None, where: str
) -> Iterator[Problem]:
    """Yield the same for a precision alone."""
    report = PLAN_PRECISION, f"precision {precision!r}", 'precision="fp16"'
    yield from _unmet(precision, *report, release=release, gpu=gpu, where=where)


def hardware_problems(
    hardware: str, *, release: Release | None, gpu: Gpu | None, where: str
) -> Iterator[Problem]:
    """Yield the same for the hardware alone."""
    report = PLAN_HARDWARE, f"hardware {hardware!r}", 'hardware="this-gpu"'
    yield from _unmet(hardware, *report, release=release, gpu=gpu, where=where)


def _unmet(
    option: str,
    check: Check,
    what: str,
    instead: str,
    *,
    release: Release | None,
    gpu: Gpu | None,
    where: str,
) -> Iterator[Problem]:
    needs = _REQUIREMENTS.get(option)
    if needs is None:
        return
    if release is not None and tuple(map(int, release.tensorrt.split(".")))[: len(needs.since)] < needs.since:
        has = f"{what} with TensorRT {release.tensorrt} of release {release.name}"
        fix = f"use a release with TensorRT {'.'.join(map(str, needs.since))} or newer, or {instead}"
        yield check.problem(what=has, where=where, fix=fix, why=needs.why)
    if gpu is not None and float(gpu.compute_capability) < float(needs.oldest):
        has = f"{what} on {gpu.name}, compute capability {gpu.compute_capability}"
        fix = f"build on a GPU of compute capability {needs.oldest} or newer, or use {instead}"
        yield check.problem(what=has, where=where, fix=fix, why=needs.why_gpu)


def major(release: Release) -> int:
    """Return the major version of a release's TensorRT."""
    return int(release.tensorrt.partition(".")[0])
