"""What a portable build has in the place of a compiler: it compiles nothing, and records what for.

A stand-in for a plan begins as a plan does, with the TensorRT that would have compiled it, then says the GPU
and its compute capability, and holds the ONNX file. So whatever reads plans reads it alike, the rehearsal's
server runs it, and refuses it where TensorRT would refuse the plan. TensorRT itself loads no such file.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from triton_models.artifact.plan_header import plan_beginning
from triton_models.base.errors import raise_if_any
from triton_models.builds.tensorrt.compiler import plan_version, version_problems
from triton_models.builds.tensorrt.machine import capability_problems
from triton_models.builds.tensorrt.options import PlanOptions
from triton_models.declare.tensors import ShapeRange
from triton_models.facts.instances import Gpu
from triton_models.facts.releases import Release
from triton_models.facts.tensorrt import LEVELS, hardware_problems

MARK = b"\nstands in for a plan: "
"""What follows the header; then JSON, a line feed, and the ONNX file."""

DEVICE = "stand-in"
"""What build.json names as the device: no GPU was there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """Makes stand-ins for plans. `stand_in` makes it.

    Attributes:
        gpu: The GPU that the plans would be compiled for.
        release: The release whose TensorRT would compile them.
    """

    gpu: Gpu
    release: Release

    def compile(
        self,
        onnx: Path,
        plan: Path,
        *,
        shapes: Mapping[str, ShapeRange],  # noqa: ARG002  as a compiler is called
        options: PlanOptions = PlanOptions(),  # noqa: B008  frozen; it calculates in FP32
    ) -> dict[str, str]:
        """Write a stand-in for the plan of an ONNX file.

        Returns:
            What build.json keeps about the plan, as a compiler's is, with the precision of the stand-in.

        Raises:
            FleetError: The release or the GPU has no plans for such hardware, or the file does not say the
                release's TensorRT.
        """
        where = f"the plan of {onnx.parent.parent.name}"
        raise_if_any(hardware_problems(options.hardware, release=self.release, gpu=self.gpu, where=where))
        wider = {"hardware": LEVELS[options.hardware]} if options.hardware in LEVELS else {}
        about = wider | {"gpu": self.gpu.name, "compute_capability": self.gpu.compute_capability}
        with plan.open("wb") as file, onnx.open("rb") as network:
            file.write(plan_beginning(self.release.tensorrt))
            file.write(MARK + json.dumps(about).encode() + b"\n")
            shutil.copyfileobj(network, file)
        version = plan_version(plan)
        raise_if_any(version_problems(version, self.release, where=str(plan)))
        return {"gpu": self.gpu.name, "device": DEVICE, "precision": "fp32", "tensorrt": version} | wider


def stand_in(*, release: Release, gpu: Gpu) -> StandIn:
    """What stands in for the compiler of a release and a GPU.

    Raises:
        FleetError: The release's TensorRT compiles nothing for that GPU.
    """
    raise_if_any(capability_problems(gpu, release))
    return StandIn(gpu=gpu, release=release)
