"""The precision that a model directory's files compute in, by the types of their weights."""

from __future__ import annotations

import math
from collections import Counter
from mmap import ACCESS_READ, mmap
from pathlib import Path

from triton_models.base.protobuf import Message
from triton_models.facts.tensorrt import FilePrecision

# Numbers of fields: of ModelProto, GraphProto and TensorProto in onnx.proto (onnx 1.23, read 2026-11-28),
# and of ValueInfoProto and TypeProto.
_GRAPH, _INITIALIZER, _DIMS, _DATA_TYPE = 7, 5, 1, 2
_OUTPUT, _TYPE, _TENSOR_TYPE, _ELEMENT = 12, 2, 1, 1
_DOUBLE = 11
# Those of TensorProto.DataType in which weights are.
_TYPES: dict[int, FilePrecision] = {1: "fp32", 2: "int8", 3: "int8", 10: "fp16", _DOUBLE: "fp64", 16: "bf16"}
_TYPES |= {17: "fp8", 18: "fp8", 19: "fp8", 20: "fp8"}


def precision_by_files(root: Path) -> str:
    """Return the precisions of the ONNX files below a folder, such as "fp16"; "" if none has weights.

    A file's precision is the type of most of its weights: a network in FP16 keeps some small ones in FP32.
    """
    precisions = {onnx_precision(path) for path in root.glob("**/*.onnx")}
    return "+".join(sorted(precision for precision in precisions if precision))


def onnx_precision(path: Path) -> FilePrecision | None:
    """Return the type of most weights of an ONNX file; None if it is not one.

    Without weights, it is None as well, unless an output is in FP64.
    """
    counts: Counter[FilePrecision] = Counter()
    try:
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            for graph in Message.of(content).parts(_GRAPH):
                for weight in graph.parts(_INITIALIZER):
                    kind = weight.number(_DATA_TYPE)
                    if kind in _TYPES:
                        counts[_TYPES[kind]] += math.prod(weight.numbers(_DIMS))
                kinds = (part for tensor in graph.parts(_OUTPUT) for part in tensor.parts(_TYPE))
                elements = [part.number(_ELEMENT) for kind in kinds for part in kind.parts(_TENSOR_TYPE)]
                if not counts and _DOUBLE in elements:
                    return "fp64"
    except (OSError, ValueError):
        return None
    return counts.most_common(1)[0][0] if counts else None
