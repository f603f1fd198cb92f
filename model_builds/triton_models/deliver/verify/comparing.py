"""Answers of a model: asked for, and compared with those declared and expected, component by component."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from triton_models.artifact.pbtxt import CONFIG_FILE, as_json, read_config, schema
from triton_models.base.answers import NEVER, gaps_of
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.encoding import Array, Parameters, Tensors
from triton_models.base.errors import FleetError
from triton_models.check.backend_rules.fil import answer_dims
from triton_models.declare.declaration import Example

NO_SUCH_MODEL = Check(id="no-such-model", source=FROM_ARGUMENTS)
WRONG_ANSWER = Check(id="wrong-answer", source=FROM_ARGUMENTS)
SEQUENCE_EXAMPLE = Check(id="sequence-example", source=FROM_ARGUMENTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The component of an answer with the largest difference, in readable form.

    Attributes:
        largest: Its absolute difference; infinite if a value is not a number, or if strings differ.
        outside: The number of components that differ by more than the tolerance.
    """

    largest: float
    index: tuple[int, ...]
    got: str
    expected: str
    outside: int
    components: int

    def __str__(self) -> str:
        by = f" by {self.largest:.2g}" if self.largest < NEVER else ""
        place = ", ".join(map(str, self.index))
        return f"the answer differs{by} at [{place}]: got {self.got}, expected {self.expected}"


def difference(served: Array, expected: Array, *, tolerance: float) -> Difference:
    """Compare two tensors of one shape, with at least one component.

    Equal values do not differ, including infinite ones and NaN. A reference of only NaN proves nothing, and
    differs from any answer.
    """
    gaps = gaps_of(served, expected)
    index = np.unravel_index(int(gaps.argmax()), gaps.shape)
    got, wanted = shown(served[index]), shown(expected[index])
    if got == wanted and gaps[index]:  # values that differ look different
        got, wanted = _exactly(served[index]), _exactly(expected[index])
    return Difference(
        largest=float(gaps[index]),
        index=tuple(int(each) for each in index),
        got=got,
        expected=wanted,
        outside=int((gaps > tolerance).sum()),
        components=gaps.size,
    )


def _exactly(value: Any) -> str:
    return f"{value:.17g}" if value.dtype.kind == "f" else str(value)


def shown(value: object) -> str:
    """Return a component in readable form."""
    if isinstance(value, bytes):
        return repr(value.decode("utf-8", "backslashreplace"))
    return repr(str(value)) if isinstance(value, str) else f"{value:.7g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """An output declared in config.pbtxt.

    Attributes:
        data_type: Its data type, such as "FP32" or "STRING".
        sizes: Its shape, with the batch dimension if the model has one; -1 for any size.
    """

    name: str
    data_type: str
    sizes: tuple[int, ...]

    def check(self, report: Report, answer: Mapping[str, Array]) -> None:
        """Report what is wrong with the type and shape of an answer's output."""
        fix = "fix the model's code or its declared outputs, then build and verify again"
        why = f"applications rely on {CONFIG_FILE}"
        if self.name not in answer:
            there = ", ".join(answer) or "nothing"
            what = f"the answer has no output {self.name!r} of {CONFIG_FILE}, only {there}"
            report(WRONG_ANSWER, what, fix=fix, why=why)
            return
        tensor, said = answer[self.name], f"as in {CONFIG_FILE}"
        if not _has_type(tensor, self.data_type):
            what = f"output {self.name!r} has elements of type {tensor.dtype}, not {self.data_type} {said}"
            report(WRONG_ANSWER, what, fix=fix, why=why)
        if not self._fits(tensor.shape):
            what = f"output {self.name!r} has the shape {list(tensor.shape)}, not {list(self.sizes)} {said}"
            report(WRONG_ANSWER, what, fix=fix, why=why)

    def _fits(self, shape: tuple[int, ...]) -> bool:
        pairs = zip(shape, self.sizes, strict=False)
        return len(shape) == len(self.sizes) and all(declared in {-1, size} for size, declared in pairs)


def served_model(root: Path, record: Mapping[str, Any]) -> str:
    """Return the model of a root that applications invoke: the one named in its record, or the only one."""
    names = sorted(config.parent.name for config in root.glob(f"*/{CONFIG_FILE}"))
    if record.get("model") in names:
        return str(record["model"])
    if len(names) == 1:
        return names[0]
    what = f"none of {', '.join(names) or 'no model directories'} is called {record.get('model')!r}"
    raise NO_SUCH_MODEL.error(what=what, where=str(root), fix="rebuild the model")


def outputs(root: Path, model: str) -> list[Output]:
    """Return the outputs declared in a model's config.pbtxt."""
    config = read_config(root / model / CONFIG_FILE)
    batch = (-1,) if config.max_batch_size > 0 else ()
    names = schema().DataType
    types = [names.Name(each.data_type).removeprefix("TYPE_") for each in config.output]
    is_forest = config.backend == "fil"
    shapes = [answer_dims(each) if is_forest else each["dims"] for each in as_json(config)["output"]]
    return [
        Output(name=each.name, data_type=data_type, sizes=(*batch, *map(int, dims)))
        for each, data_type, dims in zip(config.output, types, shapes, strict=True)
    ]


def _has_type(tensor: Array, data_type: str) -> bool:
    from tritonclient.utils import triton_to_np_dtype  # type: ignore[import-untyped]

    if data_type == "STRING":
        return bool(tensor.dtype.kind == "O")
    # NumPy lacks BF16; the client library returns FP32 instead.
    return bool(tensor.dtype == triton_to_np_dtype("FP32" if data_type == "BF16" else data_type))


_IDS = 1 << 31

Ask = Callable[[Tensors, Parameters], Tensors]


def answered(example: Example, ask: Ask) -> dict[str, Any]:
    """Return the answer to an example, or the answers to a sequence, stacked."""
    if not example.sequence:
        return dict(ask(example.inputs, {}))
    lengths = {len(each) for each in example.inputs.values()}
    if len(lengths) != 1 or 0 in lengths:
        found = ", ".join(f"{len(each)} of {name}" for name, each in example.inputs.items())
        raise _uneven(example, found or "no inputs")
    (length,) = lengths
    number = secrets.randbelow(_IDS - 1) + 1
    answers = [
        ask(
            {name: each[step] for name, each in example.inputs.items()},
            {"sequence_id": number, "sequence_start": step == 0, "sequence_end": step == length - 1},
        )
        for step in range(length)
    ]
    for name in answers[0]:
        shapes = {answer[name].shape for answer in answers}
        if len(shapes) > 1:
            found = " and ".join(str(list(shape)) for shape in sorted(shapes))
            raise _uneven(example, f"answers with {name} of the shapes {found}")
    return {name: np.stack([answer[name] for answer in answers]) for name in answers[0]}


def _uneven(example: Example, what: str) -> FleetError:
    return SEQUENCE_EXAMPLE.error(
        what=f"the sequence {example.name!r} has {what}",
        where="examples() of the declaration",
        why="the requests of a sequence are the first dimension of inputs and answers",
        fix="pad them, or write two examples",
    )
