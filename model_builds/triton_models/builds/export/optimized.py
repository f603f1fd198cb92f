"""onnxscript's optimizations, equal on every machine, with small constants kept: it reads them as zero."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# math.isclose(constant, 0, abs_tol=1e-8): rewriter/_matcher.py of onnxscript 0.7.2, 2026-11-28
_READ_AS_ZERO = 1e-8
_FLOATS = (1, 10, 11, 16)  # FLOAT, FLOAT16, DOUBLE and BFLOAT16 of onnx.TensorProto


def optimized(model: Any, **options: Any) -> Any:
    """Return a network of onnx with its constants folded, and without unused and superfluous nodes.

    To onnxscript's rules, `x + 1e-9` is `x + 0`, and so x: such constants are inputs meanwhile.
    """
    from onnxscript import optimizer

    small = hide_small_constants(model.graph)
    finished = optimizer.optimize(model, **options)
    show_small_constants(finished, small)
    return finished


def hide_small_constants(graph: Any) -> dict[str, Any]:
    """Turn constants that would be read as zero into inputs of a graph, and return them by name."""
    import onnx

    small = {tensor.name: tensor for tensor in graph.initializer if _is_small(tensor)}
    nodes = [node for node in graph.node if node.op_type == "Constant" and not node.domain]
    for node in nodes:
        if len(node.attribute) == 1 and _is_small(tensor := _value(node.attribute[0])):
            tensor.name = node.output[0]
            small[tensor.name] = tensor
            graph.node.remove(node)
    for name, tensor in small.items():
        for list_of in (graph.initializer, graph.input):
            for item in [item for item in list_of if item.name == name]:
                list_of.remove(item)
        graph.input.append(onnx.helper.make_tensor_value_info(name, tensor.data_type, []))
    return small


def show_small_constants(model: Any, small: Mapping[str, Any]) -> None:
    """Turn inputs into the constants that they were, and fold what is computed from them alone."""
    from onnxscript import optimizer

    if not small:
        return
    for item in [item for item in model.graph.input if item.name in small]:
        model.graph.input.remove(item)
    model.graph.initializer.extend(small.values())
    optimizer.fold_constants(model)
    optimizer.remove_unused_nodes(model)


def _value(attribute: Any) -> Any:
    import onnx

    if attribute.name == "value_float":
        return onnx.helper.make_tensor("", onnx.TensorProto.FLOAT, [], [attribute.f])
    return onnx.TensorProto.FromString(attribute.t.SerializeToString())


def _is_small(tensor: Any) -> bool:
    import onnx

    if tensor.dims or tensor.data_type not in _FLOATS:
        return False
    return 0 < abs(float(onnx.numpy_helper.to_array(tensor))) <= _READ_AS_ZERO
