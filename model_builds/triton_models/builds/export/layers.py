"""The layers of a network, which have trained weights, and what lies outside of them.

Tensor cores gain time in products with weights. What a network computes of its inputs before the first of
them, and of their results behind the last, is cheap, and of sizes that no weights keep small: squares, sums
of a column, prices from a table. It stays in FP32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import onnx

from triton_models.builds.export.answers import answers_of, session

CONVOLUTIONS = frozenset({"Conv", "ConvTranspose", "FusedConv", "NhwcConv"})
PRODUCTS = CONVOLUTIONS | {
    *("Attention", "Einsum", "FusedGemm", "FusedMatMul", "GRU", "Gemm", "GroupQueryAttention", "LSTM"),
    *("MatMul", "MultiHeadAttention", "PackedAttention", "RNN"),
}
_NESTED = frozenset({"If", "Loop", "Scan"})
_TABLES = {"Gather": (0,), "EmbedLayerNormalization": (2, 3, 4)}
_TRAINED = 16.0
"""The most that trained embeddings reach: sums of 4,000 of them fit into FP16."""

LARGEST = 65504.0
"""The largest number of FP16."""

_MATRIX = 2
_OF_TWO = frozenset({"Div", "MatMul", "Mul"})
_GROWS = frozenset({"CumSum", "Einsum", "Exp", "Pow", "Reciprocal", "Sinh"})
_STAYS = frozenset({"ReduceMax", "ReduceMean", "ReduceMin"})


class Layers:
    """The layers of a network.

    Attributes:
        before: The operators that make the inputs of layers from the network's inputs alone.
        outside: The operators that read nothing of a layer, or that no layer reads; but none that add to
            scores what FP16 cannot hold, as masks do: there, the largest numbers of FP16 do the same.
        reach: The largest number of each layer's weights, by name.
    """

    def __init__(self, network: Any, *, inferred: Any) -> None:
        """Find them in a network, and in the shapes of its values."""
        graph = network.graph
        self._constants = {weight.name: weight for weight in graph.initializer}
        nodes = [node for node in graph.node if not self._is_constant(node)]
        self._values = self._computed(network, {name for node in nodes for name in node.input})
        self._ranges: dict[str, tuple[float, float]] = {}
        self._ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in inferred.value_info}
        self._ranks |= {name: len(one.dims) for name, one in self._constants.items() if one is not None}
        layers = [node for node in nodes if self._is_layer(node)]
        products = {name for node in layers for name in node.output}
        layers += [node for node in nodes if self._is_bias(node, products)]
        ids = set(map(id, layers))
        behind = _reached(nodes, ids)
        ahead = _reached(nodes, ids, backward=True)
        early = [node for node in nodes if id(node) not in behind]
        made = {name for node in layers for name in _read(node)}
        last = {id(node) for node in early if not made.isdisjoint(node.output)}
        before = _reached(early, last, backward=True)
        masked = {id(node) for node in nodes if any(map(self._is_mask, node.input))}
        kept = ahead & (behind | (_reached(nodes, masked) - before))
        kept |= {id(node) for node in graph.node if any(map(self._is_mask, node.output))}
        self.before = [node for node in nodes if id(node) in before]
        self.outside = [node for node in graph.node if id(node) not in kept and node.op_type != "Constant"]
        self.reach = {
            name: self._reach(name) for node in layers for name in node.input if name in self._constants
        }

    def grows(self) -> Iterator[str]:
        """Yield the operators before layers whose values may grow beyond those of the inputs."""
        for node in self.before:
            variable = [name for name in node.input if name not in self._constants]
            of_two = node.op_type in _OF_TWO and len(variable) > 1
            sums = node.op_type.startswith("Reduce") and node.op_type not in _STAYS
            if of_two or sums or node.op_type in _GROWS:
                yield node.op_type

    def _is_constant(self, node: Any) -> bool:
        """Return whether an operator reads only constants, whose results are then constants as well."""
        if node.op_type == "Constant":
            values = [attribute.t for attribute in node.attribute if attribute.name == "value"]
            self._constants[node.output[0]] = values[0] if values else None
            return True
        if node.op_type in _NESTED or not node.input or not {*node.input} - {""} <= self._constants.keys():
            return False
        self._constants.update(dict.fromkeys(node.output))
        return True

    def _computed(self, network: Any, read: set[str]) -> dict[str, Any]:
        """Return the constants that operators make, as far as others read them."""
        names = [name for name in read if name in self._constants and self._constants[name] is None]
        if not names:
            return {}
        part = onnx.ModelProto(ir_version=network.ir_version, opset_import=network.opset_import)
        part.functions.extend(network.functions)
        part.graph.name = "constants"
        part.graph.node.extend(node for node in network.graph.node if node.output[0] in self._constants)
        needed = {name for node in part.graph.node for name in node.input}
        part.graph.initializer.extend(one for one in network.graph.initializer if one.name in needed)
        part.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        return answers_of(session(part), {})

    def _is_layer(self, node: Any) -> bool:
        if node.op_type in _NESTED:
            return True
        if places := _TABLES.get(node.op_type):
            tables = [node.input[place] for place in places if place < len(node.input) and node.input[place]]
            return all(self._is_matrix(name) and self._reach(name) <= _TRAINED for name in tables)
        return node.op_type in PRODUCTS and any(map(self._is_matrix, node.input))

    def _is_matrix(self, name: str) -> bool:
        return name in self._constants and self._ranks.get(name, 0) >= _MATRIX

    def _is_bias(self, node: Any, products: set[str]) -> bool:
        one, *other = node.input if node.op_type == "Add" else ("",)
        return any(
            sum_ in products and constant in self._constants
            for constant in other
            for sum_, constant in ((one, constant), (constant, one))
        )

    def _reach(self, name: str) -> float:
        return max(map(abs, self._range(name)))

    def _is_mask(self, name: str) -> bool:
        """Return whether a constant has negative numbers that FP16 cannot hold, and no such positive ones."""
        low, high = self._range(name)
        return low < -LARGEST and high <= LARGEST

    def _range(self, name: str) -> tuple[float, float]:
        """Return the least and the largest of a constant's floats and 0, which are read once."""
        if name not in self._ranges:
            tensor = self._constants.get(name)
            numbers = self._values.get(name) if tensor is None else onnx.numpy_helper.to_array(tensor)
            self._ranges[name] = (0.0, 0.0)
            if numbers is not None and numbers.dtype.kind == "f":
                self._ranges[name] = (float(numbers.min(initial=0)), float(numbers.max(initial=0)))
        return self._ranges[name]


def _read(layer: Any) -> Sequence[str]:
    """Return what a layer computes with, without the masks of an attention."""
    inputs: Sequence[str] = layer.input
    return inputs[:3] if layer.op_type.endswith("Attention") else inputs


def _reached(nodes: Sequence[Any], start: set[int], *, backward: bool = False) -> set[int]:
    """Return the operators that read results of some, directly or not, or make their inputs; and these."""
    reached, values = set[int](), set[str]()
    for node in reversed(nodes) if backward else nodes:
        own, further = (node.output, node.input) if backward else (node.input, node.output)
        if id(node) in start or not values.isdisjoint(own):
            reached.add(id(node))
            values.update(name for name in further if name)
    return reached
