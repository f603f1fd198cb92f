"""Quantized networks: their ONNX files say where they compute in INT8 or FP8."""

from __future__ import annotations

from pathlib import Path

from triton_models.base.errors import FleetError
from triton_models.facts.tensorrt import QUANTIZED, Precision

_OPERATORS = frozenset({"QuantizeLinear", "DequantizeLinear"})


def check_quantization(onnx: Path, precision: Precision) -> None:
    """Check that a file is quantized if the precision is one of `QUANTIZED`, and only then.

    Raises:
        FleetError: It is not.
    """
    is_quantized = _is_quantized(onnx)
    if is_quantized == (precision in QUANTIZED):
        return
    raise FleetError.of(
        what=f"the network is {'' if is_quantized else 'not '}quantized, and the precision is {precision!r}",
        where=f"the network of {onnx.parent.parent.name!r}",
        expected="QuantizeLinear and DequantizeLinear in the ONNX file, and precision 'int8' or 'fp8'",
        why="TensorRT takes these precisions from the file, and refuses quantized files at any other",
        fix="set the precision that the file was quantized for"
        if is_quantized
        else "quantize it first, for example with NVIDIA's Model Optimizer, or choose another precision",
        rule="plan-quantization",
    )


def _is_quantized(path: Path) -> bool:
    import onnx

    network = onnx.load(str(path), load_external_data=False)
    graphs = [network.graph.node, *(each.node for each in network.functions)]
    return any(node.op_type in _OPERATORS for nodes in graphs for node in nodes)
