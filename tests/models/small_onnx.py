"""Small ONNX networks, written as text."""

from __future__ import annotations

import onnx


def network_of(graph: str, *, opsets: str = '"": 17') -> onnx.ModelProto:
    """Return the network of a graph such as `g (float[rows, 2] X) => (float[rows, 2] Y) { Y = Neg(X) }`."""
    return onnx.parser.parse_model(f"<ir_version: 9, opset_import: [{opsets}]> {graph}")
