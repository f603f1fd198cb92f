"""The precision of a network, and the comparison of its finished file with its source."""

from __future__ import annotations

import contextlib
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.artifact.compared import Compared
from triton_models.artifact.networks import NetworkTensor, onnx_signature, read_onnx_file, side_files
from triton_models.artifact.precision import onnx_precision
from triton_models.base.encoding import Tensors
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.builds.derived import NETWORK_BATCH
from triton_models.builds.export.accepted import UNKNOWN, accepted_by, accepted_by_module, nodes_of
from triton_models.builds.export.answers import Run, first_line, run_file, run_module, run_torch, threads_of
from triton_models.builds.export.compared import SOURCE_DIFFERS, Comparison, Difference
from triton_models.builds.export.drawn import FEW, Drawn, example_requests
from triton_models.builds.export.traced import accepted_tensors
from triton_models.builds.job import Job
from triton_models.check.networks import NO_FILE, NO_VERSION
from triton_models.check.onnx_network import (
    INITIALIZING,
    MOST_BYTES,
    RefusedError,
    newer_versions,
    refusal_of,
    session_of,
)
from triton_models.declare.backends import LibTorch, OnnxRuntime, TensorRt
from triton_models.declare.declaration import Example, ModelDefinition
from triton_models.declare.models import Network, OnnxFile, PyTorchNetwork
from triton_models.declare.tensors import DynamicDim
from triton_models.facts.releases import Release
from triton_models.facts.tensorrt import QUANTIZED, FilePrecision, Precision

if TYPE_CHECKING:
    import torch

_CODES = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_WITHOUT_TOLERANCE = 1e-3
_LEAST_OPERATIONS = 1e7
"""Of a row. 256 rows of less take a tenth of a millisecond of an A10G in FP32 (31 TFLOPS, datasheet)."""
_PRECISIONS: Mapping[str, FilePrecision] = {"float64": "fp64", "float16": "fp16", "bfloat16": "bf16"}
_RANDOM = frozenset(
    {
        *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"),
        *("RandomUniformLike", "If", "Loop"),
    }
)
_BOTH_ENDS = "DynamicQuantizeLinear"
_AS_IT_IS = 2  # without optimizations, as the backend counts its levels
_QUANTIZES_BATCHES = ".quantized.dynamic"  # in the names of PyTorch's modules


def prepare(path: Path, source: Run | None, model: Network, build: ModelDefinition, job: Job) -> Verified:
    """Answer examples and drawn inputs with the source of a network: a function, or else its file.

    Raises:
        FleetError: The network does not batch, or refuses drawn inputs.
    """
    comparison = _comparison(
        path, source, model, examples=build.examples(), operations=_operations(path, model, job)
    )
    _refuse_rows(comparison)
    return Verified(path=path, comparison=comparison, model=model, build=build, job=job)


def refuse_operators(path: Path, model: OnnxFile, release: Release) -> None:
    """Refuse a file with versions or operators that no image of a release has, as the check does.

    Raises:
        FleetError: There are some.
    """
    head = read_onnx_file(path)
    mistakes = [(*newer, NO_VERSION) for newer in newer_versions(head, release)] if head else []
    try:
        if head and not mistakes and path.stat().st_size <= MOST_BYTES:
            session_of(path, level=_AS_IT_IS)
    except RefusedError as error:
        what, fix = refusal_of(str(error), release=release)
        fix = f"serve its directory, by `fleet adopt`, and {fix}" if "model_operations" in fix else fix
        mistakes += [(what, fix, NO_FILE)] if what else []
    where = f"the network of {model.name!r}"
    raise_if_any(
        Problem(what=what, where=where, why=why, fix=fix, rule="network-file") for what, fix, why in mistakes
    )


def compare_module(
    network: torch.nn.Module,
    finished: Callable[..., Any],
    model: PyTorchNetwork,
    build: ModelDefinition,
    job: Job,
    *,
    inputs: Sequence[NetworkTensor],
) -> None:
    """Compare a finished TorchScript file, which is loaded, with its network, and record that.

    Raises:
        FleetError: The answers differ, or the network does not batch, or refuses drawn inputs.
    """
    names = [tensor.name for tensor in inputs]
    comparison = Comparison(
        source=run_module(network, names, model.outputs),
        drawing=_drawing_of(network, inputs, model, build),
        why_not=_without_array(inputs),
        by_row=not any(_QUANTIZES_BATCHES in type(part).__module__ for part in network.modules()),
    ).prepare()
    if _cannot_compare(comparison):
        return
    allowed = _allowed(build, "fp32")
    run = run_torch(finished, names, model.outputs, threads=threads_of(network))
    # First, because a branch on values that a trace loses also makes rows depend on their batch.
    _refuse_difference(comparison, run, allowed, file="model.pt")
    _refuse_rows(comparison)
    _record(comparison, job, allowed=allowed, precision=_precision_of(network))


def _precision_of(network: torch.nn.Module) -> FilePrecision:
    """Return the type of most weights of a network of PyTorch."""
    counts: Counter[str] = Counter()
    for weight in network.parameters():
        counts[str(weight.dtype).removeprefix("torch.")] += weight.numel()
    most = counts.most_common(1)[0][0] if counts else ""
    return _PRECISIONS.get(most, "fp32")


def _drawing_of(
    network: torch.nn.Module, inputs: Sequence[NetworkTensor], model: PyTorchNetwork, build: ModelDefinition
) -> Drawn:
    """Return what draws inputs for a network of PyTorch, by its declaration and by one run."""
    from triton_models.builds.export.onnx import example_tensors

    batches = model.max_batch_size > 0
    usual = [
        replace(tensor, dims=[size.usual if isinstance(size, DynamicDim) else size for size in tensor.dims])
        for tensor in model.inputs
    ]
    requests, written = example_requests(build.examples(), inputs)
    tensors = example_tensors(usual, batches=batches)
    with contextlib.suppress(Exception):  # the network refuses them, or is of another type
        between = model.inputs_between
        tensors = accepted_tensors(network, usual, batches=batches, written=written, ranges=between)
    accepted, operations = accepted_by_module(network, tensors)
    weights = 2.0 * sum(weight.numel() for weight in network.parameters())
    return Drawn(
        model=model,
        inputs=inputs,
        accepted=accepted,
        examples=requests,
        written=written,
        operations=max(operations / (2 if batches else 1), weights),
    )


def written_requests(model: PyTorchNetwork, build: ModelDefinition) -> Sequence[Tensors]:
    """Return the first requests of the examples that the user wrote and that fit a network."""
    dims = [1 + len(tensor.dims) if model.max_batch_size else len(tensor.dims) for tensor in model.inputs]
    inputs = [
        NetworkTensor(name=tensor.name, data_type=tensor.full_type, dims=[None] * count)
        for tensor, count in zip(model.inputs, dims, strict=True)
    ]
    return example_requests(build.examples(), inputs)[1]


def _fix_of_difference(model: Network, difference: Difference | None) -> str:
    """Return what to do about a finished file that differs from its source, or cannot answer."""
    if isinstance(model, OnnxFile) and model.optimize:
        return "remove optimize=True"
    by_torch = isinstance(model.backend, LibTorch)
    script = "serve it as TorchScript: LibTorch()"
    if difference is not None and difference.empty:
        promise = f'inputs_between={{"{difference.empty}": Between(0, 1, why="...", never_empty=True)}}'
        other = "correct forward() for rows without one" if by_torch else script
        has_value = f"if each row of {difference.empty!r} has a value above 0"
        return f"{has_value}, promise it: {promise}; otherwise {other}"
    ranges = "if such inputs never come, say which do: inputs_between={...}"
    if isinstance(model.backend, LibTorch) and model.backend.export == "trace":
        return f'export it with LibTorch(export="script"), which keeps branches and loops; or, {ranges}'
    if by_torch:
        return f"{ranges}; otherwise allow a larger tolerance, or serve it with OnnxRuntime()"
    if difference is not None and difference.drawn:
        hidden = "correct forward() where it decides by values that tracing does not see"
        return f"{ranges}; otherwise allow a larger tolerance, {script}, or {hidden}"
    return f"correct forward() where it decides by values or sizes, or {script}"


def _refuse_rows(comparison: Comparison) -> None:
    """Refuse a network whose rows depend on their batch."""
    model = comparison.drawing.model
    if comparison.not_batching:
        raise NETWORK_BATCH.error(
            what=f"{model.name!r} does not batch: {comparison.not_batching}",
            where=f"max_batch_size={model.max_batch_size} of {model.name!r}",
            why="Triton joins requests along the first dimension, and hands each its rows of the answer",
            fix="write max_batch_size=0, and remove batching; the first size then belongs to each request",
        )


def _cannot_compare(comparison: Comparison) -> bool:
    if comparison.why_not:
        name = comparison.drawing.model.name
        sys.stderr.write(f"note: {name} is not compared with its source: {comparison.why_not}\n")
    return bool(comparison.why_not)


def _refuse_difference(comparison: Comparison, finished: Run, allowed: float, *, file: str) -> None:
    model = comparison.drawing.model
    difference: Difference | None = None
    cause: Exception | None = None
    try:
        difference = comparison.differs(finished, allowed)
        what = f"{model.name!r} does not answer as its source does: {difference}" if difference else ""
    except Exception as error:  # noqa: BLE001  whatever a framework raises
        cause, what = error, f"{model.name!r} answers, and its finished file does not: {first_line(error)}"
    if what:
        fix = _fix_of_difference(model, difference)
        raise SOURCE_DIFFERS.error(what=what, where=f"{model.name}/1/{file}", fix=fix) from cause


def _record(comparison: Comparison, job: Job, *, allowed: float, precision: FilePrecision) -> None:
    """Record what has been compared, unless a plan is served, which this machine has not compared."""
    model, limits = comparison.drawing.model, comparison.drawing.limits
    if comparison.not_finite:
        count = f"{comparison.not_finite} of {comparison.rows} drawn rows"
        sys.stderr.write(f"note: the source of {model.name} answers NaN or infinity to {count}\n")
    if limits:
        sys.stderr.write(f"note: {model.name} is compared with {limits}: more takes too long here\n")
    if isinstance(model.backend, TensorRt) and job.on_gpu:
        return
    job.compared[model.name] = Compared(
        examples=len(comparison.drawing.written),
        drawn=comparison.rows - comparison.not_finite,
        allowed=allowed,
        precision=precision,
        limits=limits,
        ranges=model.inputs_between,
    )


def _allowed(build: ModelDefinition, precision: Precision) -> float:
    tolerance = build.tolerance
    if tolerance is None:
        return _WITHOUT_TOLERANCE
    if isinstance(tolerance, int | float):
        return tolerance
    return tolerance[precision] if precision in tolerance else max(tolerance.values())


def prevents_batches(path: Path, batch: int) -> str:
    """Return why requests to an ONNX file cannot be joined; empty if they can, or if it cannot be run."""
    model = OnnxFile(name=path.stem, max_batch_size=batch)
    costly = 1e9  # few rows show it
    try:
        return _comparison(path, None, model, examples=(), operations=costly).not_batching
    except FleetError:  # of inputs that it refuses: the build asks for them
        return ""


def _comparison(
    path: Path, source: Run | None, model: Network, *, examples: Sequence[Example], operations: float
) -> Comparison:
    import onnx

    from triton_models.builds.export.half import is_half, is_quantized

    network = onnx.load(str(path), load_external_data=not any(side_files(path)))
    inputs = onnx_signature(path).inputs
    requests, written = example_requests(examples, inputs)
    drawing = Drawn(
        model=model,
        inputs=inputs,
        accepted=accepted_by(network),
        examples=requests,
        written=written,
        operations=operations,
    )
    why_not = _without_array(inputs)
    if source is None and not why_not:
        as_it_is = is_half(network) or is_quantized(network)
        try:  # with the optimizations that a user's own session has
            source = run_file(str(path), optimized=not as_it_is)
        except Exception as error:
            message = _CODES.sub("", first_line(error).replace(str(path), path.name))
            if INITIALIZING in message:  # and so will the server's
                raise FleetError.of(
                    what=f"ONNX Runtime cannot load {path.name}: {message}",
                    where=f"the network of {model.name!r}",
                    fix="correct the operator that it names, and export the network again",
                    rule="network-file",
                ) from error
            why_not = f"ONNX Runtime cannot load it here: {message}"
    operators = {node.op_type for node in nodes_of(network)}
    return Comparison(
        source=source or (lambda request: {}),
        drawing=drawing,
        why_not=why_not,
        by_row=_BOTH_ENDS not in operators,
        may_be_random=drawing.rows > FEW or not operators.isdisjoint(_RANDOM),
    ).prepare()


def _unproven(examples: Sequence[Example]) -> str:
    """Return why examples do not show that FP16 is enough; empty if the user wrote some."""
    if not examples:
        return "it has no examples"
    generated = all(example.generated for example in examples)
    return "none of its examples is yours: a tool made them up" if generated else ""


def _fix_of(problem: str) -> str:
    """Return what to do about a network that cannot be in FP16, although its declaration says so."""
    remove = "remove precision, so that the network stays in FP32"
    if "examples" in problem:
        return f"write real requests in examples(), without generated=True, or {remove}"
    ranges = f"{remove}; or say with inputs_between which values come"
    if " differs by " in problem:
        return f"{ranges}, or allow a larger difference for fp16"
    return ranges if problem.startswith(UNKNOWN) else remove


def _without_array(inputs: Sequence[NetworkTensor]) -> str:
    """Return why inputs cannot be drawn: the name of a type that NumPy lacks; empty if they can."""
    for name in [tensor.data_type for tensor in inputs]:
        if name == "TYPE_BF16" or not name.startswith("TYPE_"):
            return f"NumPy has no {name.removeprefix('TYPE_')}, the type of an input"
    return ""


def _operations(path: Path, model: Network, job: Job) -> float:
    """Return what one row costs; without figures, two operations for each weight and some tokens."""
    costs = job.networks.get(model.name)
    if isinstance(costs, list) and costs:
        return float(costs[0].get("operations", 0.0))
    files = (path, *(path.with_name(name) for name in side_files(path)))
    return 16.0 * sum(file.stat().st_size for file in files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A network on its way from its source to its finished file."""

    path: Path
    comparison: Comparison
    model: Network
    build: ModelDefinition
    job: Job

    def lower(self) -> dict[str, bool]:
        """Bring the file into its precision, and compare it with its source.

        Returns:
            The options of `OnnxRuntime.configure_gpu` that depend on the file.

        Raises:
            FleetError: Its answers differ, or it cannot be in the precision that is declared.
        """
        import onnx

        from triton_models.builds.export.half import is_half, is_mixed, is_quantized, norm_modes

        network = onnx.load(str(self.path), load_external_data=False)
        backend, cpu = self.model.backend, self.job.cpu
        converted, quantized = False, is_quantized(network)
        file_of_plan = isinstance(self.model, OnnxFile) and isinstance(backend, TensorRt)
        if self.build.precision_without_gpu(self.model, cpu=cpu) == "fp16":
            converted = self._tolerates_fp16()  # a file that is in FP16 already, too
        elif file_of_plan and backend.precision == "fp16" and not quantized and not cpu:
            self._tolerates_fp16(write=False)
        half = converted or is_half(network)
        options: dict[str, bool] = {}
        if half:
            finished = onnx.load(str(self.path), load_external_data=False) if converted else network
            # Of the file before casts are between a sum and its normalization.
            strict = not any(side_files(self.path)) and norm_modes(network, self.job.release)[0]
            options = {"half": not is_mixed(finished), "strict_norms": strict}
        tolerance = self.build.tolerance
        has_tolerance = not isinstance(tolerance, Mapping) or "fp16" in tolerance
        if half and isinstance(backend, OnnxRuntime) and has_tolerance:
            self.job.precisions.append("fp16")
        declared = self.build.precision(self.model)
        precision: Precision = declared if declared in QUANTIZED else "fp16" if half else "fp32"
        if not _cannot_compare(self.comparison):
            allowed = _allowed(self.build, precision)
            if not converted:  # what was converted has been compared with its roundings
                served = run_file(str(self.path), optimized=not (half or quantized))
                _refuse_difference(self.comparison, served, allowed, file=self.path.name)
            by_file = onnx_precision(self.path) if precision == "fp32" else None
            if by_file is None or (by_file == "int8" and not quantized):
                by_file = precision
            _record(self.comparison, self.job, allowed=allowed, precision=by_file)
        return options

    def precision_of_plan(self) -> Precision:
        """Return the precision to compile a plan in."""
        precision = self.build.precision(self.model)
        if precision == "fp16" and self.job.on_gpu and not isinstance(self.model, OnnxFile):
            return "fp16" if self._tolerates_fp16(write=False) else "fp32"
        return precision

    def _tolerates_fp16(self, *, write: bool = True) -> bool:
        """Convert a file to FP16 if its answers stay within the tolerance, else say why it stays in FP32."""
        from triton_models.builds.export.half import halve

        name, declared = self.model.name, self.model.backend.precision == "fp16"
        problem = _unproven(self.build.examples())
        if not declared and (operations := self.comparison.drawing.operations) < _LEAST_OPERATIONS:
            problem = f"a row takes {operations / 1e6:.1g} million operations, too few to gain time in FP16"
        if not problem:
            without = self.build.tolerance is None
            allowed = _WITHOUT_TOLERANCE if without else self.build.allowed("fp16")
            release = self.job.release
            problem = halve(self.path, self.comparison, allowed=allowed, release=release, write=write)
        if problem and declared:
            raise FleetError.of(
                what=f"{name!r} cannot be in FP16: {problem}",
                where=f"the precision of {name!r}",
                fix=_fix_of(problem),
                rule="fp16-tolerance",
            )
        if problem:
            self.build.check_tolerance(["fp32"])
            drawn = " for the drawn " in problem or problem.startswith(UNKNOWN)
            more = "; inputs_between says which values come" if drawn else ""
            sys.stderr.write(f"note: {name} stays in FP32: {problem}{more}\n")
        return not problem
