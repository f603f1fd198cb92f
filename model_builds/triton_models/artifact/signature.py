"""The inputs and outputs of an ONNX file, from its graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from triton_models.base.errors import FleetError

# TensorProto.DataType to Triton's. Triton lacks the missing types, such as FLOAT8E4M3FN.
# Source: ConvertOnnxTypeToConfigDataType of onnxruntime_backend (main of 2026-06-29) and onnx.proto, read on
# 2026-11-21.
TYPES = MappingProxyType(
    {
        "FLOAT": "TYPE_FP32",
        "UINT8": "TYPE_UINT8",
        "INT8": "TYPE_INT8",
        "UINT16": "TYPE_UINT16",
        "INT16": "TYPE_INT16",
        "INT32": "TYPE_INT32",
        "INT64": "TYPE_INT64",
        "STRING": "TYPE_STRING",
        "BOOL": "TYPE_BOOL",
        "FLOAT16": "TYPE_FP16",
        "DOUBLE": "TYPE_FP64",
        "UINT32": "TYPE_UINT32",
        "UINT64": "TYPE_UINT64",
        "BFLOAT16": "TYPE_BF16",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkTensor:
    """An input or output of a network.

    Attributes:
        name: Its name.
        data_type: The type as spelled in config.pbtxt, such as "TYPE_FP32", otherwise as in the network, such
            as "FLOAT8E4M3FN" or "sequence".
        dims: The shape: sizes, names of open dimensions, and None for unnamed open dimensions. None if the
            number of dimensions is unknown.
    """

    name: str
    data_type: str
    dims: Sequence[int | str | None] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Inputs and outputs of a network, in order."""

    inputs: Sequence[NetworkTensor]
    outputs: Sequence[NetworkTensor]


def onnx_signature(path: Path) -> Signature:
    """Return the inputs and outputs of an ONNX file, without weights that old files list as inputs.

    Raises:
        FleetError: The file is not ONNX.
    """
    import onnx
    from google.protobuf.message import DecodeError

    try:
        graph = onnx.load(str(path), load_external_data=False).graph
    except (OSError, DecodeError) as error:
        raise FleetError.of(
            what=f"cannot read {path.name} as ONNX: {error}",
            where=str(path),
            expected="a file written by torch.onnx.export or another exporter",
            fix="export it again",
            rule="network-file",
        ) from error
    weights = {each.name for each in graph.initializer} | {
        each.values.name for each in graph.sparse_initializer
    }
    return Signature(
        inputs=[_tensor(value) for value in graph.input if value.name not in weights],
        outputs=[_tensor(value) for value in graph.output],
    )


def _tensor(value: Any) -> NetworkTensor:
    import onnx

    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return NetworkTensor(name=value.name, data_type=(kind or "unknown").removesuffix("_type"), dims=None)
    tensor = value.type.tensor_type
    own = onnx.TensorProto.DataType.Name(tensor.elem_type)
    dims = [_size(size) for size in tensor.shape.dim] if tensor.HasField("shape") else None
    return NetworkTensor(name=value.name, data_type=TYPES.get(own, own), dims=dims)


def _size(size: Any) -> int | str | None:
    if size.HasField("dim_value"):
        return int(size.dim_value) if size.dim_value >= 0 else None
    return str(size.dim_param) or None
