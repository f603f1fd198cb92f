"""Compiling TensorRT plans with trtexec, on the GPU and with the TensorRT that will load them.

A plan loads only on the GPU model and in the TensorRT version that compiled it, down to the patch number
(NVIDIA's TensorRT support matrix; Triton server issues 7221 and 7613). Both are therefore checked before the
compiler starts, and the version is read back from the plan itself.
"""

from __future__ import annotations

from triton_models.tensorrt.compiler import Compiler, plan_version
from triton_models.tensorrt.machine import IMAGE_TRTEXEC, find_compiler
from triton_models.tensorrt.options import (
    LEVELS,
    Hardware,
    PlanOptions,
    Precision,
    check_precision,
    hardware_problems,
    major,
)
from triton_models.tensorrt.shapes import PLAN_TYPES, ShapeRange, check_shapes, open_shapes
from triton_models.tensorrt.stand_in import StandIn, stand_in
from triton_models.tensorrt.timing_cache import TimingCache

__all__ = [
    "IMAGE_TRTEXEC",
    "LEVELS",
    "PLAN_TYPES",
    "Compiler",
    "Hardware",
    "PlanOptions",
    "Precision",
    "ShapeRange",
    "StandIn",
    "TimingCache",
    "check_precision",
    "check_shapes",
    "find_compiler",
    "hardware_problems",
    "major",
    "open_shapes",
    "plan_version",
    "stand_in",
]
