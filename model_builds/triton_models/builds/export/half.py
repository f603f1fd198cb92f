"""FP16 for ONNX Runtime: converting a network, and comparing its answers with those in FP32 on the CPU.

On a CPU, ONNX Runtime computes a network in FP16 in FP32, without rounding what one operator hands to the
next (1.31.1, tried 2026-11-26: a product of 1e6 stays finite). So the comparison rounds explicitly, which is
close to what tensor cores do. Inputs and outputs keep their types: requests do not depend on the precision.
"""

from __future__ import annotations

import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any

from triton_models.artifact.networks import onnx_signature, side_files
from triton_models.base.encoding import Tensors
from triton_models.builds.export.compared import difference, drawn, largest, run, session
from triton_models.builds.export.onnx import check_onnx, serialise
from triton_models.declare.declaration import ModelDefinition
from triton_models.declare.models import OnnxFile, PyTorchNetwork

_QUANTIZED = frozenset({"QuantizeLinear", "DequantizeLinear"})
_MASKED = 1e30  # attention adds such values to those that it ignores


def halve(path: Path, model: PyTorchNetwork | OnnxFile, build: ModelDefinition) -> str:
    """Convert a network to FP16 in place, if its answers stay within the tolerance of those in FP32.

    It answers the examples of its declaration, or drawn inputs if it is a step among others. The tolerance of
    large answers to drawn inputs is a part of their largest element.

    Returns:
        What keeps the network in FP32, with the layer that is responsible; empty if it is now in FP16.
    """
    import onnx

    if any(side_files(path)):
        return "its weights are larger than a file that can be converted"
    network = onnx.load(str(path))
    if any(node.op_type in _QUANTIZED for node in network.graph.node):
        return "it is quantized"
    if any(each.data_type == onnx.TensorProto.FLOAT16 for each in network.graph.initializer):
        return ""  # it is in FP16 already
    allowed, taken = build.allowed("fp16"), onnx_signature(path).inputs
    examples = [each.first for each in build.examples()]
    requests = [each for each in examples if all(tensor.name in each for tensor in taken)]
    try:
        half = to_fp16(network)
        rounding = _rounding(half)
        sessions = [session(each) for each in (network, rounding)]
        for inputs in requests or [drawn(taken, model)]:
            answers = (run(each, inputs) for each in sessions)
            most, worst = difference(*answers, scaled=not requests)
            if not worst <= allowed:
                layer = _layer(network, rounding, inputs)
                return f"{most} differs by {worst:.2g}, {allowed:g} is allowed; the most is lost in {layer}"
    except Exception as error:  # noqa: BLE001  whatever ONNX Runtime raises
        said = str(error).partition("\n")[0]
        return f"ONNX Runtime cannot convert it, or run it on the CPU: {said}"
    path.write_bytes(serialise(half))
    check_onnx(path)
    return ""


def to_fp16(network: Any) -> Any:
    """Return a network with FP16 weights and arithmetic, except for operators that have none."""
    import onnx_ir
    from onnx_ir.passes.common import TopologicalSortPass
    from onnxruntime.transformers.float16 import convert_float_to_float16  # type: ignore[import-untyped]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of values that are rounded to the largest and the least of FP16
        half = convert_float_to_float16(deepcopy(network), keep_io_types=True)
    # It appends its casts, and a valid file has every node after those that it needs.
    return onnx_ir.to_proto(TopologicalSortPass()(onnx_ir.from_proto(half)).model)


def _rounding(half: Any) -> Any:
    """Return a network in FP16 as one in FP32 that rounds its weights, and each result, to FP16."""
    import onnx

    float16, float32 = onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT
    inferred = onnx.shape_inference.infer_shapes(half).graph
    values = (*inferred.input, *inferred.value_info, *inferred.output)
    types = {each.name: each.type.tensor_type.elem_type for each in values}
    types |= {each.name: each.data_type for each in half.graph.initializer}
    single = deepcopy(half)
    del single.graph.value_info[:]
    constants = [each.t for node in single.graph.node for each in node.attribute if each.HasField("t")]
    for tensor in (*single.graph.initializer, *constants):
        if tensor.data_type == float16:
            exact = onnx.numpy_helper.to_array(tensor).astype("float32")
            tensor.CopyFrom(onnx.numpy_helper.from_array(exact, tensor.name))
    nodes = []
    for node in single.graph.node:
        nodes.append(node)
        for each in node.attribute:
            if each.name in {"to", "dtype"} and each.i == float16:
                each.i = float32
        taken = next((types[name] for name in node.input if name in types), 0)
        for place, name in enumerate(node.output):
            if types.setdefault(name, taken) != float16:
                continue
            node.output[place] = f"{name}:exact"
            for to, given, result in ((float16, ":exact", ":rounded"), (float32, ":rounded", "")):
                cast = onnx.helper.make_node("Cast", [f"{name}{given}"], [f"{name}{result}"], to=to)
                nodes.append(cast)
    del single.graph.node[:]
    single.graph.node.extend(nodes)
    return single


def _layer(network: Any, half: Any, inputs: Tensors) -> str:
    """Return the first layer whose values FP16 cannot hold, or the one that adds the largest error."""
    import numpy as np

    exact, rounded = (run(session(_answering_all(each)), inputs) for each in (network, half))
    errors: dict[str, float] = {}
    worst, added = "", -1.0
    for node in network.graph.node:
        for name in exact.keys() & rounded.keys() & set(node.output):
            counts = np.abs(exact[name]) < _MASKED
            values, found = exact[name][counts], rounded[name][counts]
            layer = f"{node.op_type} {node.name or name}"
            if not np.isfinite(found).all():
                return f"{layer}, whose values reach {largest(values):.2g}"
            errors[name] = largest(found - values) / (largest(values) or 1.0)
            own = errors[name] - max((errors.get(each, 0.0) for each in node.input), default=0.0)
            if own > added:
                worst, added = layer, own
    return worst


def _answering_all(network: Any) -> Any:
    """Return a network whose outputs are all its values."""
    import onnx

    all_of, given = deepcopy(network), {each.name for each in network.graph.output}
    values = [name for node in network.graph.node for name in node.output if name and name not in given]
    all_of.graph.output.extend(onnx.ValueInfoProto(name=name) for name in values)
    return all_of
