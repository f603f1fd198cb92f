"""The precision of a network, and the comparison of its finished file with its source."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.artifact.compared import Compared, Range
from triton_models.artifact.networks import NetworkTensor, onnx_signature, side_files
from triton_models.base.errors import FleetError
from triton_models.builds.derived import NETWORK_BATCH
from triton_models.builds.job import Job
from triton_models.declare.backends import LibTorch, OnnxRuntime, TensorRt
from triton_models.declare.declaration import Example, ModelDefinition
from triton_models.declare.models import OnnxFile, PyTorchNetwork
from triton_models.declare.tensors import DynamicDim
from triton_models.facts.tensorrt import QUANTIZED, Precision

if TYPE_CHECKING:
    import torch

    from triton_models.builds.export.compared import Comparison, Difference
    from triton_models.builds.export.drawn import Drawn

_CODES = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_WITHOUT_TOLERANCE = 1e-3
_RANDOM = frozenset({"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"})
_RANDOM |= {"RandomUniformLike", "If", "Loop"}
_BOTH_ENDS = "DynamicQuantizeLinear"
_QUANTIZES_BATCHES = ".quantized.dynamic"  # in the names of PyTorch's modules


def prepare(
    path: Path,
    source: Callable[[Any], Any] | None,
    model: PyTorchNetwork | OnnxFile,
    build: ModelDefinition,
    job: Job,
) -> Verified:
    """Answer examples and drawn inputs with the source of a network: a function, or else its file.

    Raises:
        FleetError: The network does not batch, or refuses drawn inputs.
    """
    comparison = _comparison(
        path, source, model, examples=build.examples(), operations=_operations(path, model, job)
    )
    _refuse_rows(comparison)
    return Verified(path=path, comparison=comparison, model=model, build=build, job=job)


def compare_module(
    network: torch.nn.Module,
    finished: Callable[..., Any],
    model: PyTorchNetwork,
    build: ModelDefinition,
    job: Job,
    *,
    inputs: Sequence[NetworkTensor],
    device: str = "cpu",
) -> None:
    """Compare a finished file of PyTorch, which is loaded, with its network, and record that.

    Raises:
        FleetError: The answers differ, or the network does not batch, or refuses drawn inputs.
    """
    from triton_models.builds.export.compared import Comparison, run_module, run_torch, threads_of

    names, threads = [tensor.name for tensor in inputs], threads_of(network)
    comparison = Comparison(
        source=run_module(network, names, model.outputs, device=device),
        drawing=_drawing_of(network, inputs, model, build, device=device),
        why_not=_without_array(inputs),
        by_row=not any(_QUANTIZES_BATCHES in type(part).__module__ for part in network.modules()),
    ).prepare()
    if _cannot_compare(comparison):
        return
    precision = model.backend.precision if device != "cpu" else None
    allowed = _allowed(build, precision or "fp32")
    run = run_torch(finished, names, model.outputs, device=device, threads=threads)
    file = "model.pt" if isinstance(model.backend, LibTorch) else "model.pt2"
    # First, because a branch on values that a trace loses also makes rows depend on their batch.
    _refuse_difference(
        comparison, run, allowed, file=file, fix=lambda difference: _fix_of_torch(model, difference)
    )
    _refuse_rows(comparison)
    _record(comparison, job, allowed=allowed, precision=precision or "fp32")


def _drawing_of(
    network: torch.nn.Module,
    inputs: Sequence[NetworkTensor],
    model: PyTorchNetwork,
    build: ModelDefinition,
    *,
    device: str,
) -> Drawn:
    """Return what draws inputs for a network of PyTorch, by its declaration and by one run."""
    from triton_models.builds.export.accepted import accepted_by_module
    from triton_models.builds.export.drawn import Drawn, example_requests
    from triton_models.builds.export.onnx import example_tensors

    batches = model.max_batch_size > 0
    usual = [
        replace(each, dims=[size.usual if isinstance(size, DynamicDim) else size for size in each.dims])
        for each in model.inputs
    ]
    tensors = example_tensors(usual, batches=batches)
    tensors = {name: tensor.to(device) for name, tensor in tensors.items()}
    accepted, operations = accepted_by_module(network, tensors)
    weights = 2.0 * sum(weight.numel() for weight in network.parameters())
    requests, written = example_requests(build.examples(), inputs)
    return Drawn(
        model=model,
        inputs=inputs,
        accepted=accepted,
        examples=requests,
        written=written,
        operations=max(operations / (2 if batches else 1), weights),
    )


def _promise(difference: Difference) -> str:
    promise = f'inputs_between={{"{difference.empty}": Between(0, 1, why="...", never_empty=True)}}'
    return f"if each row of {difference.empty!r} has a value above 0, promise it: {promise}"


def _fix_of_torch(model: PyTorchNetwork, difference: Difference | None) -> str:
    if difference is not None and difference.empty:
        return f"{_promise(difference)}; otherwise correct forward() for rows without one"
    ranges = "if such inputs never come, say which do: inputs_between={...}"
    if isinstance(model.backend, LibTorch) and model.backend.export == "trace":
        return f'export it with LibTorch(export="script"), which keeps branches and loops; or, {ranges}'
    other = "OnnxRuntime()" if isinstance(model.backend, LibTorch) else "LibTorch()"
    return f"{ranges}; otherwise allow a larger tolerance, or serve it with {other}"


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
    """Return whether nothing can be compared, and print why."""
    if comparison.why_not:
        name = comparison.drawing.model.name
        sys.stderr.write(f"note: {name} is not compared with its source: {comparison.why_not}\n")
    return bool(comparison.why_not)


def _refuse_difference(
    comparison: Comparison,
    finished: Callable[[Any], Any],
    allowed: float,
    *,
    file: str,
    fix: Callable[[Difference | None], str],
) -> None:
    from triton_models.builds.export.compared import SOURCE_DIFFERS

    name = comparison.drawing.model.name
    try:
        difference = comparison.differs(finished, allowed)
    except Exception as error:
        said = str(error).strip().partition("\n")[0]
        raise SOURCE_DIFFERS.error(
            what=f"{name!r} answers, and its finished file does not: {said}",
            where=f"{name}/1/{file}",
            fix=fix(None),
        ) from error
    if difference:
        raise SOURCE_DIFFERS.error(
            what=f"{name!r} does not answer as its source does: {difference}",
            where=f"{name}/1/{file}",
            fix=fix(difference),
        )


def _record(comparison: Comparison, job: Job, *, allowed: float, precision: Precision) -> None:
    """Record what has been compared, unless a plan is served, which this machine has not compared."""
    model = comparison.drawing.model
    if comparison.not_finite:
        count = f"{comparison.not_finite} of {comparison.rows} drawn rows"
        sys.stderr.write(f"note: the source of {model.name} answers NaN or infinity to {count}\n")
    if limits := comparison.drawing.limits:
        sys.stderr.write(f"note: {model.name} is compared with {limits}: more takes too long here\n")
    if isinstance(model.backend, TensorRt) and job.compiler and not job.rehearsed:
        return
    spans = model.inputs_between.items()
    job.compared[model.name] = Compared(
        examples=len(comparison.drawing.written),
        drawn=comparison.rows,
        allowed=allowed,
        precision=precision,
        limits=comparison.drawing.limits,
        ranges={
            name: Range(low=span.low, high=span.high, why=span.why, never_empty=span.never_empty)
            for name, span in spans
        },
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
    path: Path,
    source: Callable[[Any], Any] | None,
    model: PyTorchNetwork | OnnxFile,
    *,
    examples: Sequence[Example],
    operations: float,
) -> Comparison:
    import onnx

    from triton_models.builds.export.accepted import accepted_by, nodes_of
    from triton_models.builds.export.compared import Comparison, run_file, session
    from triton_models.builds.export.drawn import FEW, Drawn, example_requests
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
            source = run_file(session(str(path), optimized=not as_it_is))
        except Exception as error:  # noqa: BLE001  whatever ONNX Runtime raises
            said = str(error).partition("\n")[0].replace(str(path), path.name)
            why_not = f"ONNX Runtime cannot load it here: {_CODES.sub('', said)}"
    operators = {node.op_type for node in nodes_of(network)}
    return Comparison(
        source=source or (lambda request: {}),
        drawing=drawing,
        why_not=why_not,
        by_row=_BOTH_ENDS not in operators,
        may_be_random=drawing.rows > FEW or any(each in _RANDOM for each in operators),
    ).prepare()


def _unproven(examples: Sequence[Example]) -> str:
    """Return why examples do not show that FP16 is enough; empty if the user wrote some."""
    if not examples:
        return "it has no examples"
    return "none of its examples is yours: a tool made them up" * all(each.generated for each in examples)


def _fix_of(refused: str) -> str:
    """Return what to do about a network that cannot be in FP16, although its declaration says so."""
    remove = "remove precision, so that the network stays in FP32"
    if "examples" in refused:
        return f"write real requests in examples(), without generated=True, or {remove}"
    if " differs by " in refused:
        return (
            f"{remove}; or say with inputs_between which values come, or allow a larger difference for fp16"
        )
    return f"{remove}; or say with inputs_between which values come" if " about " in refused else remove


def _without_array(inputs: Sequence[NetworkTensor]) -> str:
    return next((said for tensor in inputs if (said := _no_array(tensor.data_type))), "")


def _no_array(data_type: str) -> str:
    if data_type == "TYPE_BF16" or not data_type.startswith("TYPE_"):
        return f"NumPy has no {data_type.removeprefix('TYPE_')}, the type of an input"
    return ""


def _operations(path: Path, model: PyTorchNetwork | OnnxFile, job: Job) -> float:
    """Return what one row costs; without figures, two operations for each weight and some tokens."""
    costs = job.networks.get(model.name)
    if isinstance(costs, list) and costs:
        return float(costs[0].get("operations", 0.0))
    files = (path, *(path.with_name(name) for name in side_files(path)))
    return 16.0 * sum(each.stat().st_size for each in files)


@dataclass(slots=True, kw_only=True)
class Verified:
    """A network on its way from its source to its finished file."""

    path: Path
    comparison: Comparison
    model: PyTorchNetwork | OnnxFile
    build: ModelDefinition
    job: Job
    half: bool = False
    mixed: bool = False
    strict: bool = False

    def lower(self) -> None:
        """Bring the file into its precision, and compare it with its source.

        Raises:
            FleetError: Its answers differ, or it cannot be in the precision that is declared.
        """
        import onnx

        from triton_models.builds.export.half import is_half, is_mixed, is_quantized, norm_modes

        network = onnx.load(str(self.path), load_external_data=False)
        asked = isinstance(self.model, OnnxFile) and self.model.backend.precision == "fp16"
        converted, cpu, quantized = False, self.job.cpu, is_quantized(network)
        if self.build.precision_without_gpu(self.model, cpu=cpu) == "fp16":
            converted = self._tolerates_fp16()  # a file that is in FP16 already, too
        elif asked and isinstance(self.model.backend, TensorRt) and not quantized and not cpu:
            self._tolerates_fp16(write=False)
        self.half = converted or is_half(network)
        finished = onnx.load(str(self.path), load_external_data=False) if converted else network
        self.mixed = self.half and is_mixed(finished)
        if self.half and not any(side_files(self.path)):
            self.strict, _ = norm_modes(network, self.job.release)  # of the file before casts are between
        tolerance = self.build.tolerance
        has_tolerance = not isinstance(tolerance, Mapping) or "fp16" in tolerance
        if self.half and isinstance(self.model.backend, OnnxRuntime) and has_tolerance:
            self.job.precisions.append("fp16")
        self._compare(as_it_is=self.half or quantized, converted=converted)

    def gpu_options(self) -> dict[str, bool]:
        """Return the options of `OnnxRuntime.configure_gpu` that depend on the file."""
        return {"half": not self.mixed, "strict_norms": self.strict} if self.half else {}

    def precision_of_plan(self) -> Precision:
        """Return the precision to compile a plan in."""
        precision, compiles = self.build.precision(self.model), self.job.compiler and not self.job.rehearsed
        if precision == "fp16" and compiles and not isinstance(self.model, OnnxFile):
            return "fp16" if self._tolerates_fp16(write=False) else "fp32"
        return precision

    def _tolerates_fp16(self, *, write: bool = True) -> bool:
        """Convert a file to FP16 if its answers stay within the tolerance, else say why it stays in FP32."""
        from triton_models.builds.export.half import halve

        asked = self.model.backend.precision == "fp16"
        refused = ""
        if asked and isinstance(self.model, OnnxFile):
            refused = _unproven(self.build.examples())
        refused = refused or halve(
            self.path,
            self.comparison,
            allowed=self.build.allowed("fp16") if self.build.tolerance is not None else _WITHOUT_TOLERANCE,
            release=self.job.release,
            write=write,
        )
        if refused and asked:
            raise FleetError.of(
                what=f"{self.model.name!r} cannot be in FP16: {refused}",
                where=f"the precision of {self.model.name!r}",
                fix=_fix_of(refused),
                rule="fp16-tolerance",
            )
        if refused:
            self.build.check_tolerance(["fp32"])
            more = "; inputs_between says which values come" if " for the drawn " in refused else ""
            sys.stderr.write(f"note: {self.model.name} stays in FP32: {refused}{more}\n")
        return not refused

    def _compare(self, *, as_it_is: bool, converted: bool) -> None:
        from triton_models.builds.export.compared import run_file, session

        comparison = self.comparison
        if _cannot_compare(comparison):
            return
        declared = self.build.precision(self.model)
        precision: Precision = declared if declared in QUANTIZED else "fp16" if self.half else "fp32"
        allowed = _allowed(self.build, precision)
        if not converted:  # what was converted has been compared with its roundings
            finished = run_file(session(str(self.path), optimized=not as_it_is))
            _refuse_difference(comparison, finished, allowed, file=self.path.name, fix=self._fix)
        _record(comparison, self.job, allowed=allowed, precision=precision)

    def _fix(self, found: Difference | None) -> str:
        if isinstance(self.model, OnnxFile) and self.model.optimize:
            return "remove optimize=True"
        if found is not None and found.empty:
            return f"{_promise(found)}; otherwise serve it as TorchScript: LibTorch()"
        if found is not None and found.drawn:
            return (
                "if such inputs never come, say which do: inputs_between={...}; otherwise allow a larger "
                "tolerance, or correct forward() where it decides by values that tracing does not see"
            )
        return "correct forward() where it decides by values or sizes, or serve it as TorchScript: LibTorch()"
