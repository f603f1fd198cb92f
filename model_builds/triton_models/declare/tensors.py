"""Inputs and outputs: name, data type and shape."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from triton_models.base.suggest import did_you_mean
from triton_models.declare.mistakes import Mistake

DATA_TYPES = (
    *("BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64"),
    *("FP16", "FP32", "FP64", "STRING", "BF16"),
)
"""The data types of NVIDIA's schema, without the prefix TYPE_. Listed here so that reading a declaration does
not need protobuf; a test compares the list with the schema."""

NUMPY_TYPES: Mapping[str, str] = {
    "BOOL": "bool",
    **{name: name.lower() for name in DATA_TYPES if "INT" in name},
    **{name: name.replace("FP", "float") for name in DATA_TYPES if name.startswith("FP")},
}
"""NumPy's names of the types that it has; strings are objects, and it has no BF16."""

# The names that NumPy and PyTorch use for these types, where they differ from Triton's.
_OTHER_NAMES: Mapping[str, str] = {
    **{theirs: ours for ours, theirs in NUMPY_TYPES.items() if theirs.startswith("float")},
    "half": "FP16",
    "bfloat16": "BF16",
    "float": "FP32",
    "double": "FP64",
    "int": "INT32",
    "long": "INT64",
    **dict.fromkeys(("object", "bytes", "str"), "STRING"),
}

ELEMENT_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("TYPE_BOOL", "TYPE_UINT8", "TYPE_INT8"), 1),
    **dict.fromkeys(("TYPE_UINT16", "TYPE_INT16", "TYPE_FP16", "TYPE_BF16"), 2),
    **dict.fromkeys(("TYPE_UINT32", "TYPE_INT32", "TYPE_FP32", "TYPE_STRING"), 4),
    **dict.fromkeys(("TYPE_UINT64", "TYPE_INT64", "TYPE_FP64"), 8),
}
"""Minimum bytes per element. Strings have no fixed size: Triton counts the four bytes of their length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicDim:
    """A dimension whose size differs per request. Dimensions with the same name are equal within a request.

    ```python
    DynamicDim(name="tokens", min=16, opt=128, max=256)
    ```

    Attributes:
        name: A name for the items counted, such as "tokens".
        min: The smallest size.
        opt: The usual size, for which TensorRT tunes its kernels; by default the largest.
        max: The largest size.
    """

    name: str
    max: int
    min: int = 1
    opt: int | None = None

    @property
    def usual(self) -> int:
        """The size to tune for."""
        return self.max if self.opt is None else self.opt

    def mistakes(self) -> Iterator[Mistake]:
        """Check that the name is valid and the sizes are in order."""
        if not self.name.isidentifier() or self.name == "batch":
            fix = "name what is counted in letters, digits and _, such as 'tokens'; 'batch' is taken"
            yield Mistake("name", f"DynamicDim.name is {self.name!r}", fix=fix)
        if not 1 <= self.min <= self.usual <= self.max:
            what = f"{self.name!r} goes from {self.min} to {self.max}, with opt {self.usual}"
            yield Mistake("max", what, fix="write 1 <= min <= opt <= max")


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output, such as `Tensor("input_ids", "INT32", [TOKENS])`.

    ```python
    Tensor("IMAGE", "FP32", [3, 224, 224])
    ```

    Attributes:
        name: The tensor's name.
        data_type: The data type, with or without the prefix "TYPE_".
        dims: The shape without the batch dimension; -1 or a DynamicDim for a variable size.
        reshape: The shape in the network if it differs: () for one number in each row of a batch.
    """

    name: str
    data_type: str
    dims: Sequence[int | DynamicDim]
    reshape: tuple[int, ...] | None = None

    @property
    def full_type(self) -> str:
        """The data type as config.pbtxt spells it, such as "TYPE_INT32"."""
        return self.data_type if self.data_type.startswith("TYPE_") else f"TYPE_{self.data_type}"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The dimensions as config.pbtxt spells them, with -1 for variable ones."""
        return tuple(-1 if isinstance(size, DynamicDim) else size for size in self.dims)

    @property
    def least_bytes(self) -> int:
        """The size of the smallest possible value in bytes, for one row of a batch."""
        return self._bytes(size.min if isinstance(size, DynamicDim) else size for size in self.dims)

    @property
    def most_bytes(self) -> int:
        """The size of the largest value in bytes, for one row. Sizes without a limit count as 1."""
        return self._bytes(size.max if isinstance(size, DynamicDim) else size for size in self.dims)

    def _bytes(self, sizes: Iterable[int]) -> int:
        return math.prod(max(size, 1) for size in sizes) * ELEMENT_BYTES.get(self.full_type, 0)

    def mistakes(self) -> Iterator[Mistake]:
        """Check that the data type exists and the dimensions are sizes."""
        if not self.name:
            yield Mistake("name", "a tensor without a name", fix="name it")
        if self.full_type.removeprefix("TYPE_") not in DATA_TYPES:
            meant = _OTHER_NAMES.get(self.data_type.lower().rpartition(".")[2])
            otherwise = f"use one of {', '.join(DATA_TYPES)}"
            fix = did_you_mean(meant or self.data_type, DATA_TYPES, otherwise=otherwise)
            what = f"unknown data type {self.data_type!r} of tensor {self.name!r}"
            yield Mistake("data_type", what, fix=f"did you mean {meant}?" if meant else fix)
        if not self.dims or any(size < 1 and size != -1 for size in self.sizes):
            fix = "write a size or -1 for each dimension except the batch; [1] for one value"
            yield Mistake("dims", f"the dims {list(self.sizes)} of tensor {self.name!r}", fix=fix)


@dataclass(frozen=True, slots=True)
class Between:
    """The values of an input for which a declaration promises equal answers.

    ```python
    Between(0, 1, why="pixels / 255")
    ```

    ```python
    Between(0, 1, why="a text has a first token", never_empty=True)
    ```

    Attributes:
        low: The smallest value.
        high: The largest value.
        why: Why no other values come, in a few words. build.json records it.
        never_empty: Of a mask: each row has a value above 0, so that a token counts.
    """

    low: float
    high: float
    why: str = ""
    never_empty: bool = False

    def mistakes(self) -> Iterator[Mistake]:
        """Check that the values are in order and have a reason."""
        span = f"Between({self.low}, {self.high})"
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            yield Mistake("low", f"{span} is not finite", fix="write the smallest and the largest value")
        elif not self.low < self.high:
            yield Mistake("low", f"{span} holds no range", fix="write the smaller value first")
        if self.never_empty and (self.low, self.high) != (0, 1):
            fix = f'Between(0, 1, why="{self.why}", never_empty=True), or without never_empty'
            yield Mistake("never_empty", f"{span} is no mask", fix=f"write {fix}")
        if not self.why.strip():
            fix = f'say why no others come: Between({self.low}, {self.high}, why="pixels / 255")'
            yield Mistake("why", f"{span} has no reason", fix=fix)


def larger_sizes(inputs: Iterable[Tensor]) -> str:
    """Return how to leave out sizes that a network refuses as too small; empty if none is open."""
    sizes = [repr(size.name) for tensor in inputs for size in tensor.dims if isinstance(size, DynamicDim)]
    names = " and ".join(dict.fromkeys(sizes))
    return f"declare the least size of {names}, as DynamicDim(min=...)" if names else ""


def between_mistakes(ranges: Mapping[str, Between], known: Iterable[str], *, owner: str) -> Iterator[Mistake]:
    """Yield the inputs of `inputs_between` that do not exist, if their names are known."""
    names = list(known)
    for name in ranges:
        if names and name not in names:
            fix = did_you_mean(name, names, otherwise=f"name one of {', '.join(names)}")
            yield Mistake("inputs_between", f"{owner!r} has no input {name!r}", fix=fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeRange:
    """The shapes that a plan accepts for one input, batch dimension first.

    ```python
    ShapeRange(min=(1, 3, 224, 224), opt=(8, 3, 224, 224), max=(32, 3, 224, 224))
    ```

    Attributes:
        min: The smallest shape.
        opt: The shape for which TensorRT tunes its kernels.
        max: The largest shape.
    """

    min: tuple[int, ...]
    opt: tuple[int, ...]
    max: tuple[int, ...]
