"""A model's inputs and outputs, as its build recorded them, and requests held against them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from triton_models.artifact.layout import ANSWER, MAX_BATCH_SIZE, REQUEST
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.encoding import TEXT_KINDS, Array, Tensors
from triton_models.base.suggest import did_you_mean
from triton_models.declare.tensors import NUMPY_TYPES

if TYPE_CHECKING:
    import numpy as np


CLIENT_INPUT = Check(id="client-input", source=FROM_ARGUMENTS)
CLIENT_OUTPUT = Check(id="client-output", source=FROM_ARGUMENTS)

_TEXT, _BF16 = "STRING", "BF16"
_NAN = 0x7FC0  # in BF16
_LISTED = re.compile(r"(?P<type>[A-Z0-9]+) \[(?P<dims>[-0-9, ]*)\](?P<optional> \(optional\))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """An input or an output.

    Attributes:
        data_type: Its type, such as "FP32" or "STRING".
        dims: Its shape, with the batch dimension if the model has one; -1 for any size.
        optional: True if a request may omit it.
    """

    data_type: str
    dims: tuple[int, ...]
    optional: bool = False

    def __str__(self) -> str:
        return f"{self.data_type} {list(self.dims)}"

    @property
    def smallest(self) -> tuple[int, ...]:
        """Its shape, in which a size that is free is 1."""
        return tuple(max(size, 1) for size in self.dims)

    def zeros(self) -> Array:
        """Return a value of zeros, or of empty strings, in its smallest shape."""
        import numpy as np

        if self.data_type == _TEXT:
            return np.full(self.smallest, b"", dtype=object)
        return np.zeros(self.smallest, "V2" if self.data_type == _BF16 else NUMPY_TYPES[self.data_type])


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The inputs and outputs of an artifact.

    Attributes:
        outputs: None if its build did not record them.
        max_batch_size: The most rows of a request; 0 if the first dimension is no batch, None if unknown.
    """

    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor] | None = None
    max_batch_size: int | None = None

    def checked(self, given: Tensors, outputs: Sequence[str] | None, *, where: str) -> dict[str, Array]:
        """Return the arrays of a request in the types of the inputs, which loses nothing.

        Lists of numbers become the type of their input. Arrays become it if every value stays the same.

        Raises:
            FleetError: Names, types, shapes or the batch do not fit; all mistakes are listed.
        """
        report = Report(where)
        arrays = {}
        for name, values in given.items():
            if name not in self.inputs:
                fix = did_you_mean(name, self.inputs, otherwise=self._all())
                report(CLIENT_INPUT, f"the model has no input {name!r}", fix=fix)
                continue
            array = _array(name, values, self.inputs[name], report)
            if array is not None and self._fits(name, array, report):
                arrays[name] = array
        for name, tensor in self.inputs.items():
            if name not in given and not tensor.optional:
                report(CLIENT_INPUT, f"input {name!r} is missing, {tensor}", fix=self._all())
        self._check_batch(arrays, report)
        for name in outputs or []:
            if self.outputs is not None and name not in self.outputs:
                fix = did_you_mean(name, self.outputs, otherwise=f"ask for {', '.join(self.outputs)}")
                report(CLIENT_OUTPUT, f"the model has no output {name!r}", fix=fix)
        report.raise_if_any()
        return arrays

    def _fits(self, name: str, array: Array, report: Report) -> bool:
        dims = self.inputs[name].dims
        sizes = zip(array.shape, dims, strict=False)
        if len(array.shape) == len(dims) and all(dim in {-1, size} for size, dim in sizes):
            return True
        one_less = self.max_batch_size and array.shape == dims[1:]
        fix = f"add the batch as first dimension, {name}[None]" if one_less else f"send {list(dims)}"
        what = f"input {name!r} has the shape {list(array.shape)}, not {list(dims)}"
        report(CLIENT_INPUT, what, fix=fix, why="-1 stands for any size" if -1 in dims else "")
        return False

    def _check_batch(self, arrays: Mapping[str, Array], report: Report) -> None:
        if not self.max_batch_size:
            return
        rows = {name: array.shape[0] for name, array in arrays.items()}
        if len(set(rows.values())) > 1:
            found = ", ".join(f"{count} of {name}" for name, count in rows.items())
            report(
                CLIENT_INPUT, f"inputs have different numbers of rows: {found}", fix="send as many of each"
            )
        elif (most := max(rows.values(), default=0)) > self.max_batch_size:
            report(
                CLIENT_INPUT,
                f"a request has {most} rows",
                fix=f"send at most {self.max_batch_size} at a time, or use infer_many, which splits them",
                why="Triton refuses more than the model's max_batch_size",
            )

    def _all(self) -> str:
        return f"send {', '.join(f'{name} {tensor}' for name, tensor in self.inputs.items())}"


def signature_of(build: Mapping[str, Any]) -> Signature | None:
    """Return the signature in the record of a build; None if it is not in a known form."""
    inputs, outputs = _tensors(build.get(REQUEST)), _tensors(build.get(ANSWER))
    most = build.get(MAX_BATCH_SIZE)
    if not inputs:
        return None
    return Signature(
        inputs=inputs, outputs=outputs, max_batch_size=most if isinstance(most, int) and outputs else None
    )


def _tensors(listed: object) -> dict[str, Tensor] | None:
    if not isinstance(listed, Mapping):
        return None
    found = {name: _LISTED.fullmatch(str(each)) for name, each in listed.items()}
    tensors = {}
    for name, match in found.items():
        if match is None:
            return None
        dims = tuple(int(each) for each in match["dims"].split(",") if each.strip())
        tensors[name] = Tensor(data_type=match["type"], dims=dims, optional=bool(match["optional"]))
    return tensors


def _array(name: str, values: Any, tensor: Tensor, report: Report) -> Array | None:
    """Return values as an array of an input's type; None, and a problem, if that would change them."""
    import numpy as np

    try:
        array = np.asarray(values)
    except ValueError as error:
        report(CLIENT_INPUT, f"input {name!r} is no array: {error}", fix="send rows of equal length")
        return None
    if tensor.data_type == _BF16:
        return _as_bf16(name, values, array, report)
    if tensor.data_type == _TEXT:
        if array.dtype.kind in TEXT_KINDS:
            return array
        if not array.size and _written(values):  # NumPy takes an empty list for numbers
            return array.astype(np.object_)
        lost, fix = "", "send strings, or arrays of str or bytes"
    else:
        dtype = np.dtype(NUMPY_TYPES[tensor.data_type])
        lost = _lost(array, dtype, rounds=_written(values)) if _may_become(array.dtype, dtype) else ""
        if not lost and _may_become(array.dtype, dtype):
            return array if array.dtype == dtype else array.astype(dtype)
        fix = f"convert it, .astype({dtype.name!r}), if its values may change"
    what = f"input {name!r} has elements of type {array.dtype}, not {tensor.data_type}"
    report(CLIENT_INPUT, f"{what}, and {lost} would change" if lost else what, fix=fix)
    return None


def _may_become(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Return whether values of a type can be values of another: numbers, but no fractions among integers."""
    order = "biuf"
    return given.kind in order and wanted.kind in order and not (given.kind == "f" and wanted.kind != "f")


def _lost(array: Array, dtype: np.dtype[Any], *, rounds: bool) -> str:
    """Return a value that would change in another type; empty if all stay the same."""
    import numpy as np

    if array.dtype == dtype:
        return ""
    with np.errstate(all="ignore"):
        changed = array.astype(dtype)
        same = changed.astype(array.dtype) == array
        if array.dtype.kind in "iu" and dtype.kind in "iu":  # -1 becomes the largest, and -1 again
            same &= (changed < 0) == (array < 0)
    if array.dtype.kind == "f":
        same |= np.isnan(array)
        if rounds:
            same |= np.isfinite(changed)
    return "" if same.all() else str(array[~same].flat[0])


def _as_bf16(name: str, values: Any, array: Array, report: Report) -> Array | None:
    """Return values in BF16, which NumPy lacks: of the package ml_dtypes, or in two bytes each."""
    import numpy as np

    if array.dtype.name in {"bfloat16", "void16"}:
        return array
    what = f"input {name!r} has elements of type {array.dtype}, not BF16"
    if array.dtype.kind in "biuf":
        wide = array.astype("<f4")
        bits = wide.view("<u4")
        upper = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # to the nearest, and of two to the even one
        upper[np.isnan(wide)] = _NAN
        changed = (upper << 16).view("<f4")
        same = (changed == array) | np.isnan(wide) | (_written(values) & np.isfinite(changed))
        if same.all():
            halves: Array = upper.astype("<u2").view("V2")
            return halves
        what += f", and {array[~same].flat[0]!s} would change"
    report(CLIENT_INPUT, what, fix="round it with the package ml_dtypes, .astype(ml_dtypes.bfloat16)")
    return None


def _written(values: Any) -> bool:
    """Return whether values are numbers in Python, of no certain type."""
    import numpy as np

    return not isinstance(values, np.ndarray | np.generic)
