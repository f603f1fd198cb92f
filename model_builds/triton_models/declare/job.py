"""The build of one model, as the functions of a declaration see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from triton_models.declare.tensors import ShapeRange
from triton_models.facts.instances import Gpu
from triton_models.facts.releases import Release
from triton_models.facts.tensorrt import Hardware, Precision


class BuildJob(Protocol):
    """The build of one model: its target, its directories, and the tools to fill them."""

    @property
    def root(self) -> Path:
        """The artifact root. `model` creates the model directories in it."""

    @property
    def release(self) -> Release:
        """The Triton release that will serve the model."""

    @property
    def source(self) -> Path:
        """The folder of the declaration."""

    @property
    def gpu(self) -> Gpu | None:
        """The GPU that plans are compiled for; None without one."""

    @property
    def cpu(self) -> bool:
        """True if the model is served without a GPU: ONNX Runtime then serves models declared for plans."""

    @property
    def rehearsed(self) -> bool:
        """True if a rehearsal builds and serves the model."""

    @property
    def portable(self) -> bool:
        """True if the build is for the rehearsal, which has stand-ins and its own Python."""

    def model(self, config: Any) -> Path:
        """Create the model directory of a configuration, and return its empty version folder.

        Raises:
            FleetError: The job already has a model of that name.
        """

    def folder(self, name: str) -> Path:
        """Create the model directory of a model whose configuration follows, and return its version folder.

        Raises:
            FleetError: The job already has a model of that name.
        """

    def compile_plan(
        self,
        onnx: Path,
        *,
        shapes: Mapping[str, ShapeRange] | Sequence[Mapping[str, ShapeRange]],
        precision: Precision = "fp32",
        hardware: Hardware = "this-gpu",
        workspace_mb: int | None = None,
        optimization_level: int | None = None,
        plugins: Sequence[str] = (),
    ) -> Path:
        """Compile an ONNX file to `model.plan` next to it; without a GPU the ONNX file is kept.

        A rehearsal of a GPU writes a stand-in for the plan. A build for CPUs sets ONNX Runtime as the model's
        backend, because TensorRT needs a GPU.

        The shapes are always checked against the ONNX file, so errors are found without a GPU.

        Args:
            onnx: The file; removed after its compilation.
            shapes: The range of shapes of every input, with the batch dimension first. Several such mappings
                become profiles of the plan, which `profile` of an instance group names by position: "0", "1".
            precision: "fp32" keeps FP32 arithmetic, "tf32" lets TensorRT use TF32 on Ampere and newer, "fp16"
                and "bf16" let it choose kernels of that type; from TensorRT 11 on, AutoCast converts the file
                first. "int8" and "fp8" are for files that are quantized already.
            hardware: The GPUs that the plan runs on: "this-gpu", "same-compute-capability" or "ampere+".
            workspace_mb: The maximum workspace of the plan's kernels in GPU memory, in MiB.
            optimization_level: From 0 (fastest compilation) to 5 (fastest inference).
            plugins: The libraries of the network's own operators, in the image.

        Returns:
            The resulting file in the model directory.

        Raises:
            FleetError: The shapes do not fit the network, or trtexec failed.
        """

    def add_packages(self, version: Path, *names: str) -> None:
        """Copy installed Python packages next to a Python model, if the Triton image lacks them.

        See `triton_models.artifact.environments.packages` for the packages that can be copied.

        Raises:
            FleetError: A package is not installed here, or would not load in the release.
        """
