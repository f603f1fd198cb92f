"""The values of an ONNX graph that are alive at once, from their shapes: what its runtime needs at least.

ONNX Runtime plans its buffers by the order of the nodes. It reuses the buffer of a value after its last use,
also for the result of an operator that works in place, and its arena grows to the peak in steps. Measured on
a CPU (ONNX Runtime 1.23, 2026-11-28): ResNet-50 in FP32 grows by 90, 359 and 726 MiB for 8, 32 and 64 rows,
and has 55, 220 and 441 MiB alive.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

_VIEWS = frozenset({"Reshape", "Unsqueeze", "Squeeze", "Flatten", "Identity"})
_IN_PLACE = frozenset({"Relu", "Add", "Mul", "Div", "Erf", "Tanh", "Softmax", "Clip", "Sigmoid"})
_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose", "FusedConv", "NhwcConv"})

FLOAT_BYTES = {1: 4, 10: 2, 11: 8, 16: 2}
"""The bytes of FLOAT, FLOAT16, DOUBLE and BFLOAT16 of onnx.proto."""

SMALL = 1024
"""Weights with more numbers are left out where shapes are derived: only small ones are shapes."""

_LARGEST_FILE = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveValues:
    """The peak of the floating-point values of a graph, without inputs and weights.

    Convolutions need a workspace besides.
    """

    numbers: int
    bytes: int
    convolutional: bool

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as a build records them, whatever the precision of its finished file is."""
        return {"live": self.numbers, "convolutional": self.convolutional}


def live_values(graph: Any, inputs: Collection[str]) -> LiveValues | None:
    """Return the peak of a GraphProto after the inference of shapes; None if a shape is missing."""
    values = {value.name: value for value in (*graph.value_info, *graph.input, *graph.output)}
    made = {name for node in graph.node for name in node.output if name}
    types = {name: value.type.tensor_type for name, value in values.items() if name in made}
    floats = {name: kind for name, kind in types.items() if kind.elem_type in FLOAT_BYTES}
    if made - {*values} or made & {*inputs} or not all(map(_is_known, floats.values())):
        return None
    sizes = {name: math.prod(dim.dim_value for dim in kind.shape.dim) for name, kind in floats.items()}
    buffers = _Buffers(graph, sizes)
    most: list[str] = []
    alive: list[str] = []
    for place, new in enumerate(buffers.new):
        alive += new
        most = max(most, alive, key=lambda names: sum(sizes[name] for name in names))
        alive = [name for name in alive if buffers.ends[name] > place]
    return LiveValues(
        numbers=sum(sizes[name] for name in most),
        bytes=sum(sizes[name] * FLOAT_BYTES[floats[name].elem_type] for name in most),
        convolutional=any(node.op_type in _CONVOLUTIONS for node in graph.node),
    )


def _is_known(kind: Any) -> bool:
    return bool(kind.HasField("shape")) and all(dim.HasField("dim_value") for dim in kind.shape.dim)


class _Buffers:
    """The buffers of a graph, each named after the first value in it.

    For each node, `new` has the buffers that it makes; `ends` is the place of a buffer's last reader.
    """

    def __init__(self, graph: Any, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes
        self._last_use = {name: place for place, node in enumerate(graph.node) for name in node.input}
        self._last_use |= {output.name: len(graph.node) for output in graph.output}
        self._of = dict[str, str]()
        self.new: list[list[str]] = []
        self.ends = dict[str, int]()
        for place, node in enumerate(graph.node):
            results = [name for name in node.output if name in sizes]
            for name in results:
                buffer = self._of[name] = self._reused(node, name, place) or name
                self.ends[buffer] = max(self.ends.get(buffer, place), self._last_use.get(name, place))
            self.new.append([name for name in results if self._of[name] == name])

    def _reused(self, node: Any, result: str, place: int) -> str | None:
        """Return the buffer of an input that a result takes; None if it needs one of its own."""
        if node.op_type in _VIEWS:
            return self._of.get(node.input[0])
        if node.op_type in _IN_PLACE:
            for name in node.input:
                ends_here = self._last_use[name] == place and self._sizes.get(name) == self._sizes[result]
                if name in self._of and ends_here:
                    return self._of[name]
        return None


def recorded_live_values(networks: Any, *, batch: int, width: int) -> LiveValues | None:
    """Return the peak of a batch by what a build recorded of smaller ones; None if it recorded nothing.

    The width is the bytes of a number in the finished file.
    """
    costs = networks if isinstance(networks, list) else []
    points = [cost for cost in costs if isinstance(cost, dict) and isinstance(cost.get("live"), int)]
    if not points:
        return None
    first, last = points[0], points[-1]
    rows = max(1, last["batch"] - first["batch"])
    per_row = (last["live"] - first["live"]) / rows if len(points) > 1 else first["live"]
    numbers = max(0, round(first["live"] + per_row * (max(1, batch) - first["batch"])))
    convolutional = bool(first.get("convolutional"))
    return LiveValues(numbers=numbers, bytes=numbers * width, convolutional=convolutional)


def live_values_of_file(content: IO[bytes], *, batch: int) -> LiveValues | None:
    """Return the peak of an ONNX file; None without the package onnx, or if a shape is open."""
    with suppress(Exception):  # of a file that ONNX cannot read, which the check reports
        import onnx

        text = content.read(_LARGEST_FILE + 1)
        if len(text) > _LARGEST_FILE:
            return None
        model = onnx.load_model_from_string(text)
        weights = {weight.name for weight in model.graph.initializer}
        inputs = [value for value in model.graph.input if value.name not in weights]
        for value in inputs if batch else ():
            for dim in value.type.tensor_type.shape.dim[:1]:
                dim.dim_value = batch
        open_shapes(model.graph)
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        return live_values(inferred.graph, [value.name for value in inputs])
    return None


def open_shapes(graph: Any) -> None:
    """Remove the shapes that an exporter wrote, and turn larger weights into inputs without their data."""
    import onnx

    weights = list(graph.initializer)
    del graph.initializer[:], graph.value_info[:]
    for weight in weights:
        if math.prod(weight.dims) > SMALL:
            graph.input.append(onnx.helper.make_tensor_value_info(weight.name, weight.data_type, weight.dims))
        else:
            graph.initializer.append(weight)
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
