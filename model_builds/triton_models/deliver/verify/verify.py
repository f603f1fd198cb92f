"""`fleet verify`: compare built models on a Triton server with their source, on the declared inputs."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from triton_models.artifact import roots as mark
from triton_models.artifact.evidence import Evidence, evidence_of
from triton_models.artifact.layout import AUTO_COMPLETE, BUILD_FILE, read_layout
from triton_models.artifact.pbtxt import CONFIG_FILE, read_config
from triton_models.base.answers import NEVER
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.encoding import Array, Parameters, Tensors
from triton_models.base.errors import FleetError, Problem, one_line, raise_if_any
from triton_models.base.outcome import progress
from triton_models.declare.declaration import Example, ModelDefinition
from triton_models.declare.reading import FORM_MARK, blame, fix_of, load_build, model_names, read_folder
from triton_models.deliver.options import VerifyOptions
from triton_models.deliver.verify.comparing import Output, answered, difference, outputs, served_model
from triton_models.facts.tensorrt import Precision

if TYPE_CHECKING:
    from triton_models.deliver.verify.server import Server

_T = TypeVar("_T")

REFERENCE = Check(id="reference", source=FROM_ARGUMENTS)
OUTSIDE_TOLERANCE = Check(id="outside-tolerance", source=FROM_ARGUMENTS)
NO_BUILD = Check(id="no-build", source=FROM_ARGUMENTS)
DECLARATION_FAILED = Check(id="declaration-failed", source=FROM_ARGUMENTS)

_BY_NAME = "return the model's outputs by name in reference()"
MAX_BYTES = 32 << 20
"""The most bytes of a request with a full batch; half of Triton's limit, --http-max-input-size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The accuracy of a built model that is within its tolerance.

    Attributes:
        examples: The requests that it answered.
        evidence: What this and the build show about its answers.
        largest: The largest absolute difference of any component; None without a comparison.
        tolerance: The allowed difference; None without a comparison.
        output: The output with the largest difference.
        environment_not_loaded: The reason for running with the server's packages instead of its environment;
            empty if it ran with its own.
    """

    model: str
    examples: int
    evidence: Evidence
    largest: float | None = None
    tolerance: float | None = None
    output: str | None = None
    environment_not_loaded: str = ""

    @property
    def precision(self) -> str:
        """Its precision, such as "fp32", or "fp16+fp32" for several."""
        return self.evidence.precision

    def as_dict(self) -> dict[str, Any]:
        """Return the accuracy as JSON-ready data."""
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "evidence"}
        return {**own, **self.evidence.as_dict()}

    def line(self) -> str:
        """Return the result as a line."""
        compared = ""
        if self.largest is not None:
            compared = f"; largest difference {self.largest:.1e} in {self.output}, allowed {self.tolerance:g}"
        why = self.environment_not_loaded
        ran = f"; with this server's packages, its environment is not loaded: {why}" if why else ""
        return f"{self.model}: {self.precision}, {self.evidence.words()}{compared}{ran}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The answers that a built model must give, as data.

    Attributes:
        output: The output that the reference must give.
        allowed: The largest difference allowed; None without a reference.
        answers: Each example with the reference's tensors or its problems; None without a reference.
    """

    name: str
    output: str
    precisions: tuple[Precision, ...]
    allowed: float | None
    answers: Sequence[tuple[Example, Mapping[str, Array] | tuple[Problem, ...] | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The outcome of `fleet verify`: the accuracy or the problems of each root."""

    found: dict[str, Accuracy | tuple[Problem, ...]]

    @property
    def exit_code(self) -> int:
        """0 if every model is within its tolerance, otherwise 1."""
        return 0 if all(isinstance(each, Accuracy) for each in self.found.values()) else 1

    def as_dict(self) -> dict[str, Any]:
        """Return each path with its accuracy or its problems, as JSON-ready data."""
        return {
            "verified": self.exit_code == 0,
            "paths": {
                path: {"status": each.evidence.status, "accuracy": each.as_dict()}
                if isinstance(each, Accuracy)
                else {"status": _status(each), "problems": [problem.as_dict() for problem in each]}
                for path, each in self.found.items()
            },
        }

    def lines(self) -> Iterator[str]:
        """Yield the problems in full, and one line per model."""
        for path, each in self.found.items():
            if isinstance(each, Accuracy):
                yield each.line()
                continue
            for problem in each:
                yield from (str(problem), "")
            count = len(each)
            yield f"{one_line(path)}: {_status(each)}, {count} problem{'s' * (count != 1)}"


def _status(problems: Sequence[Problem]) -> Literal["differs", "failed"]:
    """Return "differs" if a model gives other answers than its source, "failed" if it gives none."""
    return "differs" if any(each.rule == OUTSIDE_TOLERANCE.id for each in problems) else "failed"


def run(options: VerifyOptions) -> Verified:
    """Run `fleet verify ROOT...` with one server for all roots; a failed root does not stop the others."""
    from triton_models.deliver.verify.server import local_server

    found: dict[str, Accuracy | tuple[Problem, ...]] = {}
    with local_server(options.tritonserver, log=options.log) as server:
        server.start()
        for root in options.roots:
            progress(f"verifying {root} ...")
            try:
                found[str(root)] = verify(root, declaration_of(root, options.models), server=server)
            except FleetError as error:
                found[str(root)] = error.problems
    return Verified(found=found)


def verify(root: Path, declaration: ModelDefinition, *, server: Server) -> Accuracy:
    """Send every example of a declaration to the built model, and compare the answers with its source's.

    Every component of every output in the reference must be within the tolerance of the model's precision; of
    several plans, the coarsest precision applies. Outputs must always have the types and shapes declared in
    config.pbtxt.

    A root that fails is marked, and `fleet pack` refuses it until it is rebuilt or verified. A server that
    does not start leaves no mark, because the model is not at fault.

    The root also receives Python's bytecode, which artifacts do not contain. One server is enough for any
    number of roots: it starts on demand, and again after a crash.
    """
    return compare(root, lambda: expected_answers(root, declaration), server=server)


def compare(root: Path, expect: Callable[[], Expected], *, server: Server, hurry: bool = False) -> Accuracy:
    """Verify a root, as `verify` does, against answers that may be computed in another process.

    In a hurry, the server unloads the model while the next one is verified.
    """
    record = _record(root)
    configure(server, record)
    server.start()
    try:
        found = _verify(root, record, expect(), server, hurry=hurry)
    except FleetError as error:
        problems = list(error.problems)
        if record.get("left_out"):
            lacks = ", ".join(record["left_out"])
            more = f"; it is portable and lacks {lacks}, which only the rehearsal's server can omit"
            problems = [
                replace(each, fix=each.fix + more) if each.rule == "not-served" else each for each in problems
            ]
        mark.refuse(root, problems)
        raise FleetError(problems) from error
    mark.accept(root)
    return found


def configure(server: Server, record: Mapping[str, Any]) -> None:
    """Give a server what the models of a root need: TensorRT plugins, and completed configurations."""
    # The libraries of TensorRT plugins that the plans need, in the order of their names.
    plans = record.get("plans", {}).values()
    plugins = {path for plan in plans for path in plan.get("plugins", "").split(";") if path}
    server.configure(plugins=tuple(sorted(plugins)), completes=record.get(AUTO_COMPLETE) is True)


def _precisions(root: Path) -> Sequence[Precision]:
    return _record(root).get("precisions") or ("fp32",)


def expected_answers(root: Path, declaration: ModelDefinition) -> Expected:
    """Return the examples of a declaration with its reference's answers. This runs the model's own code."""
    precisions = _precisions(root)
    allowed = declaration.allowed_of(precisions)
    examples = examples_of(declaration)
    return Expected(
        name=declaration.name,
        output=declaration.output,
        precisions=tuple(precisions),
        allowed=allowed,
        answers=[(declaration.as_sent(example), reference_of(declaration, example)) for example in examples],
    )


def examples_of(declaration: ModelDefinition) -> list[Example]:
    """Return the examples of a declaration. This runs the model's own code."""
    return own_function(f"examples() of {declaration.name!r}", lambda: list(declaration.examples()))


def reference_of(
    declaration: ModelDefinition, example: Example
) -> Mapping[str, Array] | tuple[Problem, ...] | None:
    """Return the reference's answer to an example, or its problems; None if none is declared."""
    reference = declaration.reference
    if reference is None:
        return None
    try:
        return own_function(
            f"reference() of {declaration.name!r}, example {example.name!r}",
            lambda: {name: np.asarray(each) for name, each in reference(example.inputs).items()},
        )
    except FleetError as error:
        return error.problems


def declaration_of(root: Path, models: Path | None = None) -> ModelDefinition:
    """Return the declaration that a root was built from."""
    name = str(_record(root).get("model"))
    folders = model_names(models)
    if name in folders:
        return load_build(name, models)
    for folder in (each for each in folders if name.startswith(each)):
        declared = read_folder(folder, models)
        if declared.family is not None and name.startswith(f"{folder}_"):
            return declared.asked(f"{folder}{FORM_MARK}{name[len(folder) + 1 :]}")
        for build in declared.forms.values():
            if build.name == name:
                return build
    return load_build(name, models)  # its error lists the available models


@dataclass(slots=True, kw_only=True)
class _Comparison:
    """The comparison of a built model's answers."""

    expected: Expected
    model: str
    outputs: Sequence[Output]
    largest: float | None = None
    output: str | None = None

    @property
    def precision(self) -> str:
        """The model's precisions, in readable form."""
        return "+".join(self.expected.precisions)

    def check(
        self,
        report: Report,
        example: Example,
        expected: Mapping[str, Array] | tuple[Problem, ...] | None,
        server: Server,
    ) -> None:
        """Report what is wrong with the answer to one example."""
        wrong = Report(report.where)

        def ask(inputs: Tensors, parameters: Parameters) -> Tensors:
            answer = server.infer(self.model, inputs, parameters=parameters, where=wrong.where)
            for output in self.outputs:
                output.check(wrong, answer)
            return answer

        answer = answered(example, ask)
        report.add(wrong.problems)
        if wrong.problems or expected is None:
            return
        if isinstance(expected, tuple):
            report.add(expected)
            return
        reference = Report(f"reference() of {self.expected.name!r}, example {example.name!r}")
        if self.expected.output not in expected:
            given = ", ".join(expected) or "nothing"
            reference(REFERENCE, f"it gives {given}, without {self.expected.output}", fix=_BY_NAME)
        for name, tensor in expected.items():
            if name in answer:
                compared = Report(f"{report.where}, output {name!r}")
                self._compare(answer[name], tensor, name, compared)
                reference.add(compared.problems)
            else:
                others = ", ".join(answer)
                reference(REFERENCE, f"it gives {name!r}, which is not one of {others}", fix=_BY_NAME)
        report.add(reference.problems)

    def _compare(self, served: Array, expected: Array, output: str, report: Report) -> None:
        largest, again = NEVER, "then build and verify again"
        if served.shape != expected.shape:
            shapes = f"{list(served.shape)}, and the reference {list(expected.shape)}"
            fix = f"fix the model's code or its export, {again}"
            report(OUTSIDE_TOLERANCE, f"the answer has the shape {shapes}", fix=fix)
        elif not served.size:
            what = f"the answer and the reference are empty: their shape is {list(served.shape)}"
            report(OUTSIDE_TOLERANCE, what, fix="choose an example with a non-empty answer")
        else:
            allowed = self.expected.allowed or 0.0
            found = difference(served, expected, tolerance=allowed)
            largest = found.largest
            if found.outside:
                report(
                    OUTSIDE_TOLERANCE,
                    f"{found}; {found.outside} of {found.components} components are outside the tolerance "
                    f"of {allowed:g} in {self.precision}",
                    fix="fix the model, or build it with a higher precision; raise `tolerance` in build.py "
                    f"only if applications can accept the difference; {again}",
                )
        if self.largest is None or largest > self.largest:
            self.largest, self.output = largest, output


def _verify(
    root: Path, record: Mapping[str, Any], expected: Expected, server: Server, *, hurry: bool
) -> Accuracy:
    model, examples = served_model(root, record), expected.answers
    expected = replace(expected, answers=[*expected.answers, *_full_batch(root / model, record, expected)])
    comparison = _Comparison(expected=expected, model=model, outputs=outputs(root, model))
    found: list[Problem] = []
    with server.loaded(root, model, hurry=hurry):
        for example, answer in expected.answers:
            report = Report(f"model {model!r}, example {example.name!r}")
            try:
                comparison.check(report, example, answer, server)
            except FleetError as error:
                report.add(error.problems)
                if not server.alive:
                    found += report.problems
                    break
            found += report.problems
        not_loaded = server.environment_not_loaded()
    raise_if_any(found)
    return Accuracy(
        model=model,
        examples=len(expected.answers),
        evidence=_evidence(model, record, examples),
        largest=comparison.largest,
        tolerance=None if comparison.largest is None else expected.allowed,
        output=comparison.output,
        environment_not_loaded=not_loaded,
    )


def _evidence(
    model: str,
    record: Mapping[str, Any],
    answers: Sequence[tuple[Example, Mapping[str, Array] | tuple[Problem, ...] | None]],
) -> Evidence:
    """Return what right answers show. Examples that a tool made up are counted apart."""
    compared = [example for example, answer in answers if answer is not None]
    own = sum(not example.generated for example in compared)
    generated = sum(example.generated for example, _ in answers)
    evidence = replace(evidence_of(record, examples=own), model=model)
    left = len(answers) - generated - evidence.examples
    return replace(
        evidence,
        answered=max(left, 0),
        generated=generated,
        generated_equal=bool(generated) and sum(each.generated for each in compared) == generated,
    )


def _full_batch(
    directory: Path, record: Mapping[str, Any], expected: Expected
) -> Iterator[tuple[Example, Mapping[str, Array] | None]]:
    """Yield the largest example, its rows repeated to a full batch, if a plan has several profiles.

    Triton runs a batch of few rows in the profile for small batches, and the other one has other kernels.
    """
    several = any("profiles" in plan for plan in record.get("plans", {}).values())
    if not several or record.get("left_out"):  # a stand-in runs the same network in any profile
        return
    answers = [
        (example, answer)
        for example, answer in expected.answers
        if not example.sequence and not isinstance(answer, tuple)
    ]
    for example, answer in sorted(answers, key=lambda each: -_rows(each[0]))[:1]:
        row_bytes = sum(np.asarray(each).nbytes for each in example.inputs.values()) // _rows(example)
        rows = min(read_config(directory / CONFIG_FILE).max_batch_size, MAX_BYTES // max(row_bytes, 1))
        if rows > _rows(example):
            full, given = replace(example, name=f"{example.name}, {rows} rows"), example.inputs
            yield replace(full, inputs=repeated(given, rows)), repeated(answer, rows) if answer else None


def _rows(example: Example) -> int:
    return max(len(next(iter(example.inputs.values()))), 1)


def repeated(tensors: Mapping[str, Array], rows: int) -> dict[str, Array]:
    """Return tensors whose rows are repeated to so many."""
    return {name: np.resize(each, (rows, *np.shape(each)[1:])) for name, each in tensors.items()}


def _record(root: Path) -> dict[str, Any]:
    """Read build.json of a root."""
    record = read_layout(root).build() if root.is_dir() else {}
    if "model" in record:
        return record
    raise NO_BUILD.error(
        what=f"no {BUILD_FILE} that names a model",
        where=str(root),
        why=f"{BUILD_FILE} names the declaration with the examples and the reference",
        fix="build the model, and pass the path printed by `fleet build`",
    )


def own_function(called: str, function: Callable[[], _T]) -> _T:
    """Call a declaration's own function, described by `called`, and return its result."""
    try:
        # Frameworks print, but standard output is reserved for the command's result.
        with contextlib.redirect_stdout(sys.stderr):
            return function()
    except FleetError:
        raise
    except (Exception, SystemExit) as error:
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
        raise DECLARATION_FAILED.error(
            what=f"{called} failed: {type(error).__name__}: {error}",
            where=blame(error, Path(own[0].filename).parent) if own else "its build.py",
            why="a model that cannot be verified is not published",
            fix=fix_of(error, otherwise="fix that line, then verify again"),
        ) from error
