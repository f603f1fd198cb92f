"""Conversion of an exported network to an older opset, for a TensorRT that cannot read the exporter's own.

ONNX's version converter, which the exporter uses, fails for a network with a ReduceMean, and the exporter
then keeps opset 18 (onnxscript 0.7.2 with onnx 1.23.2, tested 2026-11-22). Opset 18 changed little:
docs/Changelog.md of onnx, read 2026-11-22.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx

OLDEST = 17
"""The opset that `lowered` converts to."""

# Their axes became an input in opset 18.
_REDUCTIONS = frozenset(
    f"Reduce{each}" for each in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
)

# New attributes of opset 18 whose default is the behavior of opset 17.
_DEFAULTS = {("Resize", "antialias"): 0, ("Resize", "keep_aspect_ratio_policy"): b"stretch"}


def lowered(model: onnx.ModelProto) -> onnx.ModelProto:
    """Rewrite a network of opset 18 in opset 17.

    Anything without a counterpart stays unchanged, so that ONNX's checker refuses it.

    Args:
        model: The network; modified in place.
    """
    import onnx

    constants = {each.name: each for each in model.graph.initializer}
    sizes = {each.name: each.type.tensor_type.shape.dim for each in _values(model.graph)}
    for node in model.graph.node:
        if node.op_type in _REDUCTIONS and len(node.input) > 1 and node.input[1] in constants:
            _drop(node, "noop_with_empty_axes")
            axes = onnx.numpy_helper.to_array(constants[node.input[1]]).tolist()
            node.attribute.append(onnx.helper.make_attribute("axes", axes))
            del node.input[1:]
        if node.op_type == "Split" and _is_even(node, sizes.get(node.input[0])):
            _drop(node, "num_outputs")
        for attribute in list(node.attribute):
            default = _DEFAULTS.get((node.op_type, attribute.name))
            if default is not None and onnx.helper.get_attribute_value(attribute) == default:
                node.attribute.remove(attribute)
    _forget_unused(model.graph)
    for opset in model.opset_import:
        if not opset.domain:
            opset.version = OLDEST
    return model


def _values(graph: Any) -> Iterator[Any]:
    yield from (*graph.input, *graph.output, *graph.value_info)


def _drop(node: Any, name: str) -> None:
    for attribute in list(node.attribute):
        if attribute.name == name:
            node.attribute.remove(attribute)


def _is_even(node: Any, shape: Any) -> bool:
    """Return whether a split gives equal parts; opset 17 supports no other split into a number of parts."""
    axis = next((each.i for each in node.attribute if each.name == "axis"), 0)
    return shape is not None and len(shape) > 0 and shape[axis].dim_value % len(node.output) == 0


def _forget_unused(graph: Any) -> None:
    """Remove unused constants, which were axes."""
    used = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
    for constant in [each for each in graph.initializer if each.name not in used]:
        graph.initializer.remove(constant)
