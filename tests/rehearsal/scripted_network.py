"""A network in ONNX Script, which reads annotations as values, so they are not postponed here."""

from pathlib import Path

import onnx
from onnxscript import FLOAT, script
from onnxscript import opset18 as op


@script()
def doubled(X: FLOAT["rows", 3]) -> FLOAT["rows", 3]:  # noqa: F821, N803  names of dimensions
    return op.Add(X, X)


def write_scripted(path: Path) -> None:
    """Write the network as a file with the input X and the output Y."""
    made = doubled.to_model_proto()
    made.graph.output[0].name = made.graph.node[-1].output[0] = "Y"
    made.ir_version = 9
    onnx.save(made, path)
