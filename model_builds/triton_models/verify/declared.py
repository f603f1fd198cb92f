"""The model that a built root serves, and the model's declared outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.base.errors import FleetError, Problem
from triton_models.config.pbtxt import CONFIG_FILE, read_config, schema

if TYPE_CHECKING:
    from triton_models.verify.comparing import Array


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

    def problems(self, answer: Mapping[str, Array], *, where: str) -> Iterator[Problem]:
        """Yield the problems with the type and shape of an answer's output."""
        if self.name not in answer:
            there = ", ".join(answer) or "nothing"
            yield _wrong(f"the answer has no output {self.name!r} of {CONFIG_FILE}, only {there}", where)
            return
        tensor = answer[self.name]
        if not _has_type(tensor, self.data_type):
            what = f"output {self.name!r} has elements of type {tensor.dtype}"
            yield _wrong(f"{what}, not {self.data_type} as in {CONFIG_FILE}", where)
        if not self._fits(tensor.shape):
            what = f"output {self.name!r} has the shape {list(tensor.shape)}"
            yield _wrong(f"{what}, not {list(self.sizes)} as in {CONFIG_FILE}", where)

    def _fits(self, shape: tuple[int, ...]) -> bool:
        pairs = zip(shape, self.sizes, strict=False)
        return len(shape) == len(self.sizes) and all(declared in {-1, size} for size, declared in pairs)


def served_model(root: Path, record: Mapping[str, Any]) -> str:
    """Return the model of a root that applications invoke: the one named in its record, or the only one.

    Raises:
        FleetError: There is no such model.
    """
    names = sorted(config.parent.name for config in root.glob(f"*/{CONFIG_FILE}"))
    if record.get("model") in names:
        return str(record["model"])
    if len(names) == 1:
        return names[0]
    raise FleetError.of(
        what=f"none of {', '.join(names) or 'no model directories'} is called {record.get('model')!r}",
        where=str(root),
        fix="rebuild the model",
        rule="no-such-model",
    )


def outputs(root: Path, model: str) -> list[Output]:
    """Return the outputs declared in a model's config.pbtxt.

    Raises:
        FleetError: The file cannot be read.
    """
    config = read_config(root / model / CONFIG_FILE)
    batch = (-1,) if config.max_batch_size > 0 else ()
    names = schema().DataType
    return [
        Output(
            name=each.name,
            data_type=names.Name(each.data_type).removeprefix("TYPE_"),
            sizes=(*batch, *each.dims),
        )
        for each in config.output
    ]


def _has_type(tensor: Array, data_type: str) -> bool:
    from tritonclient.utils import triton_to_np_dtype  # type: ignore[import-untyped]

    if data_type == "STRING":
        return bool(tensor.dtype.kind == "O")
    # NumPy lacks BF16; the client library returns FP32 instead.
    return bool(tensor.dtype == triton_to_np_dtype("FP32" if data_type == "BF16" else data_type))


def _wrong(what: str, where: str) -> Problem:
    return Problem(
        what=what,
        where=where,
        why="applications rely on config.pbtxt",
        fix="fix the model's code or its declared outputs, then build and verify again",
        rule="wrong-answer",
    )
