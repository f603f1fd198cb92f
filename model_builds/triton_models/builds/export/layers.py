"""The layers of a network, which have trained weights, and what lies outside of them.

Tensor cores gain time in products with weights. What a network computes of its inputs before the first of
them, and of their results behind the last, is cheap, and of sizes that no weights keep small: squares, sums
of a column, prices from a table. It stays in FP32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx

CONVOLUTIONS = frozenset({"Conv", "ConvTranspose", "FusedConv", "NhwcConv"})
PRODUCTS = CONVOLUTIONS | {
    *("Attention", "Einsum", "FusedGemm", "FusedMatMul", "GRU", "Gemm", "GroupQueryAttention", "LSTM"),
    *("MatMul", "MultiHeadAttention", "PackedAttention", "RNN"),
}
_NESTED = frozenset({"If", "Loop", "Scan"})
_TABLES = {"Gather": (0,), "EmbedLayerNormalization": (2, 3, 4)}
_TRAINED = 16.0
"""The most that trained embeddings reach: sums of 4,000 of them fit into FP16."""

_MATRIX, _LARGEST = 2, 65504.0
_OF_TWO = frozenset({"Div", "MatMul", "Mul"})
_GROWS = frozenset({"CumSum", "Einsum", "Exp", "Pow"})


class Layers:
    """The layers of a graph.

    Attributes:
        before: The operators that make the inputs of layers from the network's inputs alone.
        outside: The operators that read nothing of a layer, or that no layer reads; but none that add to
            scores what FP16 cannot hold, as masks do: there, the largest numbers of FP16 do the same.
        weights: The weights of layers.
    """

    def __init__(self, graph: Any, *, inferred: Any) -> None:
        """Find them in a graph, and in the shapes of its values."""
        self._weights = {weight.name: weight for weight in graph.initializer}
        values = [(node, value) for node in graph.node for value in node.attribute if value.name == "value"]
        self._weights |= {node.output[0]: value.t for node, value in values if node.op_type == "Constant"}
        self._ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in inferred.value_info}
        self._ranks |= {name: len(weight.dims) for name, weight in self._weights.items()}
        self._constants = set(self._weights)  # and, from here on, what is computed of them
        nodes = [node for node in graph.node if not self._is_constant(node)]
        layers = [node for node in nodes if self._is_layer(node)]
        products = {name for node in layers for name in node.output}
        layers += [node for node in nodes if self._is_bias(node, products)]
        ids = set(map(id, layers))
        behind = _reached(nodes, ids)
        ahead = _reached(nodes, ids, backward=True)
        masked = {id(node) for node in nodes if any(self._reach(name) > _LARGEST for name in node.input)}
        masks = _reached(nodes, masked) - behind
        before = _reached(nodes, ids, backward=True, through=set(map(id, nodes)) - behind) - ids
        self.before = [node for node in nodes if id(node) in before]
        kept = (behind & ahead) | (masks & ahead)
        self.outside = [node for node in nodes if id(node) not in kept]
        self.weights = [
            self._weights[name] for node in layers for name in node.input if name in self._weights
        ]

    def grows(self) -> Iterator[str]:
        """Yield the operators before layers whose values may grow beyond those of the inputs."""
        for node in self.before:
            variable = [name for name in node.input if name not in self._constants]
            of_two = node.op_type in _OF_TWO and len(variable) > 1
            if of_two or node.op_type in _GROWS or node.op_type.startswith("Reduce"):
                yield node.op_type

    def _is_constant(self, node: Any) -> bool:
        """Return whether an operator reads only constants, whose values are then constants as well."""
        made_up = not node.input and node.op_type != "Constant"  # such as random values
        if node.op_type in _NESTED or made_up or not {*node.input} - {""} <= self._constants:
            return False
        self._constants.update(node.output)
        return True

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
        weight = self._weights.get(name)
        values = np.zeros(0) if weight is None else onnx.numpy_helper.to_array(weight)
        return float(np.abs(values).max(initial=0)) if values.dtype.kind == "f" else 0.0


def _reached(
    nodes: Sequence[Any], start: set[int], *, backward: bool = False, through: set[int] | None = None
) -> set[int]:
    """Return the operators that read results of some, directly or not, or make their inputs; and these."""
    reached, values = set[int](), set[str]()
    for node in reversed(nodes) if backward else nodes:
        own, further = (node.output, node.input) if backward else (node.input, node.output)
        passes = through is None or id(node) in through
        if id(node) in start or (passes and not values.isdisjoint(own)):
            reached.add(id(node))
            values.update(name for name in further if name)
    return reached
