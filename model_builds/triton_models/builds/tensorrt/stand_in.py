"""A stand-in for the compiler in rehearsals: it compiles nothing, but records the target.

A stand-in for a plan has a plan's header with the TensorRT version that would have compiled it, then the GPU,
its compute capability and the profiles, then the ONNX file. Code that reads plans can read it. The
rehearsal's server runs it, and refuses it if TensorRT would refuse the plan. TensorRT itself cannot load the
file.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton_models.artifact.networks import plan_beginning
from triton_models.base.errors import raise_if_any
from triton_models.builds.tensorrt.compiler import plan_version, version_problems
from triton_models.builds.tensorrt.machine import capability_problems
from triton_models.builds.tensorrt.options import PlanOptions
from triton_models.declare.tensors import ShapeRange
from triton_models.facts.instances import Gpu
from triton_models.facts.releases import Release
from triton_models.facts.tensorrt import LEVELS, QUANTIZED, plan_problems

MARK = b"\nstands in for a plan: "
"""The mark after the header; JSON, a line feed and the ONNX file follow."""

DEVICE = "stand-in"
"""The device in build.json for a machine without a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """A compiler of stand-ins for plans; created by `stand_in`."""

    gpu: Gpu
    release: Release

    def compile(
        self,
        onnx: Path,
        plan: Path,
        *,
        profiles: Sequence[Mapping[str, ShapeRange]],
        options: PlanOptions = PlanOptions(),  # noqa: B008  frozen; a stand-in computes in FP32
    ) -> dict[str, Any]:
        """Write a stand-in for the plan of an ONNX file, and return its record for build.json."""
        where = f"the plan of {onnx.parent.parent.name}"
        found = plan_problems(
            options.precision, options.hardware, release=self.release, gpu=self.gpu, where=where
        )
        raise_if_any(found)
        wider = {"hardware": LEVELS[options.hardware]} if options.hardware in LEVELS else {}
        about = wider | {
            "gpu": self.gpu.name,
            "compute_capability": self.gpu.compute_capability,
            "profiles": [{name: [each.min, each.max] for name, each in of.items()} for of in profiles],
        }
        with plan.open("wb") as file, onnx.open("rb") as network:
            file.write(plan_beginning(self.release.tensorrt))
            file.write(MARK + json.dumps(about).encode() + b"\n")
            shutil.copyfileobj(network, file)
        version = plan_version(plan)
        raise_if_any(version_problems(version, self.release, where=str(plan)))
        precision = options.precision if options.precision in QUANTIZED else "fp32"
        return {"gpu": self.gpu.name, "device": DEVICE, "precision": precision, "tensorrt": version} | wider


def stand_in(*, release: Release, gpu: Gpu) -> StandIn:
    """Return the stand-in for the compiler of a release and a GPU."""
    raise_if_any(capability_problems(gpu, release))
    return StandIn(gpu=gpu, release=release)
