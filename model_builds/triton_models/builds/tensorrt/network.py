"""Checks of the ONNX file that a plan is compiled from, before anything is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triton_models.base.checks import Check, Report
from triton_models.declare.tensors import ShapeRange
from triton_models.facts.tensorrt import QUANTIZED, Precision

_TRTEXEC = "2026-11-21: samples/common/sampleOptions.cpp of NVIDIA/TensorRT"
PLAN_SHAPES = Check(id="plan-shapes", source=_TRTEXEC)
PLAN_QUANTIZATION = Check(id="plan-quantization", source=_TRTEXEC)
PLAN_PLUGIN = Check(id="plan-plugin", source=_TRTEXEC)

_QUANTIZED_BY = frozenset({"QuantizeLinear", "DequantizeLinear"})
_ONNX_RUNTIME = "com.microsoft"


def check_network(
    onnx: Path, *, shapes: Mapping[str, ShapeRange], precision: Precision, needs_plugins: bool
) -> dict[str, ShapeRange]:
    """Check an ONNX file, and return the ranges of the inputs that it leaves open.

    Args:
        onnx: The ONNX file.
        shapes: The ranges of its inputs.
        precision: The precision of its plan.
        needs_plugins: True if its operators are in plugins, which this build lacks.

    Raises:
        FleetError: The ranges do not fit the inputs, the file is quantized and the precision is not, or the
            reverse, or this build lacks its operators.
    """
    import onnx as onnx_format

    network = onnx_format.load(str(onnx), load_external_data=False)
    inputs = {
        value.name: tuple(dimension.dim_value for dimension in value.type.tensor_type.shape.dim)
        for value in network.graph.input
    }
    report = Report(f"the network of {onnx.parent.parent.name!r}")
    _check_shapes(report.at("shapes"), inputs, shapes)
    _check_operators(report, network, precision, needs_plugins=needs_plugins)
    report.raise_if_any()
    return {name: shapes[name] for name, sizes in inputs.items() if 0 in sizes}


def _check_shapes(
    report: Report, inputs: Mapping[str, tuple[int, ...]], shapes: Mapping[str, ShapeRange]
) -> None:
    why = "trtexec refuses such ranges, and a plan refuses shapes outside its ranges"
    for verb, names in (
        ("no range", inputs.keys() - shapes.keys()),
        ("a range", shapes.keys() - inputs.keys()),
    ):
        if names:
            fix = f"give ranges for {', '.join(inputs)}"
            report(PLAN_SHAPES, f"{verb} for {', '.join(sorted(names))}", fix=fix, why=why)
    for name in sorted(inputs.keys() & shapes.keys()):
        size, range_ = inputs[name], shapes[name]
        what = f"{name}: {range_.min} to {range_.max}, best {range_.opt}"
        if {len(range_.min), len(range_.opt), len(range_.max)} != {len(size)}:
            report(PLAN_SHAPES, what, fix=f"give {len(size)} dimensions in each", why=why)
            continue
        for fixed, *ordered in zip(size, range_.min, range_.opt, range_.max, strict=True):
            if ordered != sorted(ordered) or ordered[0] < 1:
                report(PLAN_SHAPES, what, fix="give 1 <= min <= opt <= max in every dimension", why=why)
            elif fixed and set(ordered) != {fixed}:
                fix = f"give {fixed} in the dimension that the network fixes to {fixed}"
                report(PLAN_SHAPES, what, fix=fix, why=why)


def _check_operators(report: Report, network: Any, precision: Precision, *, needs_plugins: bool) -> None:
    import onnx

    functions = {(each.domain, each.name) for each in network.functions}
    nodes = [*network.graph.node, *(node for each in network.functions for node in each.node)]
    is_quantized = any(node.op_type in _QUANTIZED_BY for node in nodes)
    if is_quantized != (precision in QUANTIZED):
        what = f"the network is {'' if is_quantized else 'not '}quantized, and the precision is {precision!r}"
        fix = (
            "set the precision that the file was quantized for, int8 or fp8"
            if is_quantized
            else "quantize it first, such as with NVIDIA's Model Optimizer, or choose another precision"
        )
        why = "TensorRT takes these precisions from the file, and refuses quantized files at any other"
        report(PLAN_QUANTIZATION, what, fix=fix, why=why)
    own = {
        node.op_type
        for node in nodes
        if not onnx.defs.has(node.op_type, node.domain)
        and (node.domain, node.op_type) not in functions
        and node.domain != _ONNX_RUNTIME
    }
    if own and needs_plugins:
        what = f"the network has operators of plugins: {', '.join(sorted(own))}"
        fix = "build it with --gpu, or serve it elsewhere than in a rehearsal or a fleet without GPUs"
        report(PLAN_PLUGIN, what, fix=fix, why="without a GPU, ONNX Runtime would serve it, and lacks them")
