"""Normalizations that a graph spells out, and what small constants guard, such as divisors.

ONNX Runtime makes one operator of such a normalization. Its LayerNormFusion and SimplifiedLayerNormFusion
look for a mean of squares, to which a constant is added, under a root that divides (layer_norm_fusion.cc of
ONNX Runtime 1.21.0, read 2026-11-28). A sum before it then becomes part of the same operator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import onnx

_LEAST = 2.0**-14
"""The least number that FP16 has with all its digits."""

_GUARDS = frozenset({"Add", "Clip", "Max", "Sub", "Sum", "Where"})
_NORMALIZES = frozenset(
    {
        *("BatchNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization"),
        *("LpNormalization", "MeanVarianceNormalization", "RMSNormalization", "SimplifiedLayerNormalization"),
    }
)
_MOVES = frozenset(
    {
        *("Cast", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze"),
        *("Transpose", "Unsqueeze"),
    }
)
_SCALES = frozenset({"Add", "Div", "Mul", "Sub"})
_ROOTS = frozenset({"Abs", "Log", "Neg", "Pow", "Reciprocal", "Sqrt"})
_COMPARES = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Sign"})
_ELEMENTWISE = frozenset(
    {
        *("Erf", "Exp", "Mean", "Min", "Relu", "Sigmoid", "Softmax", "Tanh"),
        *(*_COMPARES, *_GUARDS, *_MOVES, *_ROOTS, *_SCALES),
    }
)

_AFTER = frozenset({"Add", "Cast", "Div", "Mul"})  # the division, a scale and a bias
_BEFORE = frozenset({"Cast", "Identity"})


class Norm(NamedTuple):
    """The value that is normalized, and the operators that do it."""

    value: str
    nodes: tuple[Any, ...]


def spelled_out_norms(network: Any) -> Iterator[Norm]:
    """Yield the normalizations of a graph that are no operator of their own."""
    graph = _Graph(network.graph)
    for root in network.graph.node:
        if root.op_type == "Sqrt" and (norm := graph.norm(root)) is not None:
            yield norm


def guarded(network: Any) -> list[Any]:
    """Return the operators whose values FP16 cannot hold, although it holds what they make of them.

    They add a constant below the numbers of FP16, or make what it guards, or compute with that until they
    divide by it: in FP16, the square of 1e-4 is 0.
    """
    graph = _Graph(network.graph)
    for node in network.graph.node:
        if graph.is_guard(node):
            graph.keep(*graph.before(node))
            graph.keep_after(node)
    return list(graph.kept.values())


class _Graph:
    def __init__(self, graph: Any) -> None:
        self.kept: dict[int, Any] = {}
        self._weights = {weight.name: weight for weight in graph.initializer}
        self._made: Mapping[str, Any] = {name: node for node in graph.node for name in node.output}
        self._users: dict[str, list[Any]] = {}
        for node in graph.node:
            for name in node.input:
                self._users.setdefault(name, []).append(node)
        self._constants = {weight.name for weight in graph.initializer}
        self._constants |= {name for name, node in self._made.items() if node.op_type == "Constant"}

    def norm(self, root: Any) -> Norm | None:
        """Return the normalization that a root is part of."""
        variance = self._maker(root.input[0])
        if variance is None or variance.op_type != "Add":
            return None
        mean = next(filter(_is_mean, map(self._maker, variance.input)), None)
        square = self._maker(mean.input[0]) if mean is not None else None
        if square is None or not _is_square(square):
            return None
        nodes = [root, variance, mean, square]
        value = self._passed(square.input[0])
        centered = self._maker(value)
        if centered is not None and centered.op_type == "Sub":
            average = self._maker(centered.input[1])
            if _is_mean(average):
                value = self._passed(centered.input[0])
                nodes.append(average)
                nodes += [user for user in self._users[average.output[0]] if user.op_type == "Sub"]
        nodes += self._after(root)
        between = [self._made.get(name) for node in nodes for name in node.input]
        nodes += [node for node in between if node is not None and node.op_type in _BEFORE]
        return Norm(value=value, nodes=tuple({id(node): node for node in nodes}.values()))

    def is_guard(self, node: Any) -> bool:
        """Return whether an operator keeps a value away from 0 by a number that FP16 rounds."""
        numbers = [attribute.f for attribute in node.attribute if attribute.name == "min"]
        if node.op_type in _GUARDS:
            numbers += map(self._number, node.input)
        return any(0 < abs(number) < _LEAST for number in numbers)

    def _number(self, name: str) -> float:
        """Return a constant in FP32 that is one number, and 0 for any other value."""
        node, tensor = self._maker(name), self._weights.get(self._passed(name))
        if node is not None and node.op_type == "Constant":
            tensor = node.attribute[0].t
        if tensor is None or tensor.data_type != onnx.TensorProto.FLOAT or math.prod(tensor.dims) != 1:
            return 0.0
        return float(onnx.numpy_helper.to_array(tensor).item())

    def keep(self, *nodes: Any) -> None:
        """Add operators to those that stay in FP32."""
        self.kept |= {id(node): node for node in nodes}

    def before(self, last: Any) -> list[Any]:
        """Return what makes an operator's values of products and inputs."""
        seen, waiting = {id(last): last}, [last]
        while waiting:
            node = waiting.pop()
            for name in node.input[:1] if node.op_type in _MOVES | _NORMALIZES else node.input:
                maker = self._made.get(name)
                if maker is None or id(maker) in seen or name in self._constants:
                    continue
                kind, table = maker.op_type, maker.op_type == "Gather" and maker.input[0] in self._constants
                if not table and (kind in _ELEMENTWISE or kind.startswith("Reduce")):
                    seen[id(maker)] = maker
                    waiting.append(maker)
        return list(seen.values())

    def keep_after(self, guard: Any) -> None:
        """Keep what computes with a guarded value until it divides by it, and the scale and the bias then."""
        waiting, seen = [(guard, False)], {id(guard)}
        while waiting:
            node, divided = waiting.pop()
            for user in self._users.get(node.output[0], []):
                kind = user.op_type
                made = [self._made.get(name) for name in user.input if name not in self._constants]
                alone = all(id(maker) in self.kept for maker in made)
                divides = kind in {"Div", "Mul"} and not (divided or alone)
                moves = kind in _ROOTS or kind == "Cast" or (kind in _MOVES and not divided)
                if id(user) in seen or not (moves or divides or (alone and kind in _SCALES)):
                    continue
                seen.add(id(user))
                self.keep(*self.before(user))
                if kind != "Log":  # whose results are of the usual size
                    waiting.append((user, divided or divides))

    def _passed(self, name: str) -> str:
        while name in self._made and self._made[name].op_type in _BEFORE:
            name = self._made[name].input[0]
        return name

    def _maker(self, name: str) -> Any:
        return self._made.get(self._passed(name))

    def _after(self, root: Any) -> Iterator[Any]:
        """Yield what divides by a root, and the scale and the bias behind it."""
        waiting = list(self._users.get(root.output[0], []))
        while waiting:
            node = waiting.pop()
            yield node
            users = self._users.get(node.output[0], [])
            if node.op_type == "Reciprocal":
                waiting += [user for user in users if user.op_type == "Mul"]
            elif node.op_type in _AFTER:
                waiting += [user for user in users if self._scales(user)]

    def _scales(self, node: Any) -> bool:
        return node.op_type in {"Add", "Mul"} and any(name in self._constants for name in node.input)


def _is_mean(node: Any) -> bool:
    return bool(node is not None and node.op_type == "ReduceMean")


def _is_square(node: Any) -> bool:
    return bool(node.op_type == "Pow" or (node.op_type == "Mul" and node.input[0] == node.input[1]))
