"""Normalizations that a graph spells out, which ONNX Runtime makes one operator of.

Its LayerNormFusion and SimplifiedLayerNormFusion look for a mean of squares, to which a constant is added,
under a root that divides (layer_norm_fusion.cc of ONNX Runtime 1.21.0, read 2026-11-28). A sum before it
then becomes part of the same operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

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


class _Graph:
    def __init__(self, graph: Any) -> None:
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
