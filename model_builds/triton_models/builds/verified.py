"""The precision of a network, and the comparison of its finished file with its source."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.artifact.compared import Compared, Range
from triton_models.artifact.networks import onnx_signature, side_files
from triton_models.base.errors import FleetError
from triton_models.builds.derived import NETWORK_BATCH
from triton_models.builds.job import Job
from triton_models.declare.backends import OnnxRuntime, TensorRt
from triton_models.declare.declaration import Example, ModelDefinition
from triton_models.declare.models import OnnxFile, PyTorchNetwork
from triton_models.facts.tensorrt import QUANTIZED, Precision

if TYPE_CHECKING:
    from triton_models.builds.export.compared import Comparison, Difference

_CODES = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_WITHOUT_TOLERANCE = 1e-3
_NOT_YOURS = "none of its examples is yours: a tool made them up"
_RANDOM = frozenset({"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"})
_RANDOM |= {"RandomUniformLike", "If", "Loop"}
_BOTH_ENDS = "DynamicQuantizeLinear"


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
    if comparison.not_batching:
        raise NETWORK_BATCH.error(
            what=f"{model.name!r} does not batch: {comparison.not_batching}",
            where=f"max_batch_size={model.max_batch_size} of {model.name!r}",
            why="Triton joins requests along the first dimension, and hands each its rows of the answer",
            fix="write max_batch_size=0, and remove batching; the first size then belongs to each request",
        )
    return Verified(path=path, comparison=comparison, model=model, build=build, job=job)


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
    from triton_models.builds.export.drawn import FEW, Drawn, fitting_examples

    network = onnx.load(str(path), load_external_data=not any(side_files(path)))
    inputs = onnx_signature(path).inputs
    fitting = fitting_examples(examples, inputs)
    drawing = Drawn(
        model=model,
        inputs=inputs,
        accepted=accepted_by(network),
        examples=[each.first for each in fitting],
        written=[each.first for each in fitting if not each.generated],
        operations=operations,
    )
    why_not = next((_no_array(each.data_type) for each in inputs if _no_array(each.data_type)), "")
    if source is None and not why_not:
        try:
            source = run_file(session(str(path)))
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


def _fix_of(refused: str) -> str:
    """Return what to do about a network that cannot be in FP16, although its declaration says so."""
    remove = "remove precision, so that the network stays in FP32"
    if refused == _NOT_YOURS:
        return f"write real requests in examples(), without generated=True, or {remove}"
    if " differs by " in refused:
        return (
            f"{remove}; or say with inputs_between which values come, or allow a larger difference for fp16"
        )
    return f"{remove}; or say with inputs_between which values come" if " about " in refused else remove


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
    strict: bool = False

    def lower(self) -> None:
        """Bring the file into its precision, and compare it with its source.

        Raises:
            FleetError: Its answers differ, or it cannot be in the precision that is declared.
        """
        import onnx

        from triton_models.builds.export.half import is_half, is_quantized, norm_modes

        network = onnx.load(str(self.path), load_external_data=False)
        if not any(side_files(self.path)):
            self.strict, _ = norm_modes(network, self.job.release)  # before casts are between
        asked = isinstance(self.model, OnnxFile) and self.model.backend.precision == "fp16"
        converted, cpu = False, self.job.cpu
        if self.build.precision_without_gpu(self.model, cpu=cpu) == "fp16":
            converted = self._tolerates_fp16()  # a file that is in FP16 already, too
        elif asked and isinstance(self.model.backend, TensorRt) and not is_quantized(network) and not cpu:
            self._tolerates_fp16(write=False)
        network = onnx.load(str(self.path), load_external_data=False)
        self.half = converted or is_half(network)
        tolerance = self.build.tolerance
        has_tolerance = not isinstance(tolerance, Mapping) or "fp16" in tolerance
        if self.half and isinstance(self.model.backend, OnnxRuntime) and has_tolerance:
            self.job.precisions.append("fp16")
        self._compare(as_it_is=self.half or is_quantized(network), converted=converted)

    def gpu_options(self) -> dict[str, bool]:
        """Return the options of `OnnxRuntime.configure_gpu` that depend on the file."""
        return {"half": True, "strict_norms": self.strict} if self.half else {}

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
        if asked and all(each.generated for each in self.build.examples()):
            refused = _NOT_YOURS
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
        from triton_models.builds.export.compared import SOURCE_DIFFERS, run_file, session

        comparison, name = self.comparison, self.model.name
        if comparison.why_not:
            sys.stderr.write(f"note: {name} is not compared with its source: {comparison.why_not}\n")
            return
        declared = self.build.precision(self.model)
        precision: Precision = declared if declared in QUANTIZED else "fp16" if self.half else "fp32"
        allowed = self._allowed(precision)
        if not converted:  # what was converted has been compared with its roundings
            finished = run_file(session(str(self.path), optimized=not as_it_is))
            try:
                found = comparison.differs(finished, allowed)
            except Exception as error:
                said = str(error).partition("\n")[0]
                raise SOURCE_DIFFERS.error(
                    what=f"{name!r} answers, and its finished file does not: {said}",
                    where=f"{name}/1/{self.path.name}",
                    fix=self._fix(None),
                ) from error
            if found:
                raise SOURCE_DIFFERS.error(
                    what=f"{name!r} does not answer as its source does: {found}",
                    where=f"{name}/1/{self.path.name}",
                    fix=self._fix(found),
                )
        if comparison.not_finite:
            count = f"{comparison.not_finite} of {comparison.rows} drawn rows"
            sys.stderr.write(f"note: the source of {name} answers NaN or infinity to {count}\n")
        plan = isinstance(self.model.backend, TensorRt) and self.job.compiler and not self.job.rehearsed
        if plan:
            return  # this machine's ONNX Runtime has compared the file, not the plan
        spans = self.model.inputs_between.items()
        self.job.compared[name] = Compared(
            examples=len(comparison.drawing.written),
            drawn=comparison.rows,
            allowed=allowed,
            precision=precision,
            ranges={key: Range(low=span.low, high=span.high, why=span.why) for key, span in spans},
        )

    def _allowed(self, precision: Precision) -> float:
        tolerance = self.build.tolerance
        if tolerance is None:
            return _WITHOUT_TOLERANCE
        if isinstance(tolerance, int | float):
            return tolerance
        return tolerance[precision] if precision in tolerance else max(tolerance.values())

    def _fix(self, found: Difference | None) -> str:
        if isinstance(self.model, OnnxFile) and self.model.optimize:
            return "remove optimize=True"
        if found is not None and found.drawn:
            return (
                "if such inputs never come, say which do: inputs_between={...}; otherwise allow a larger "
                "tolerance, or correct forward() where it decides by values that tracing does not see"
            )
        return "correct forward() where it decides by values or sizes, or serve it as TorchScript: LibTorch()"
