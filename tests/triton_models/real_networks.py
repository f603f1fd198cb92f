"""Small networks that ONNX Runtime and PyTorch load, for tests of models whose answers do not matter."""

from __future__ import annotations

import functools
import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from triton_models.artifact.pbtxt import ModelConfig, as_json, read_config, schema

_ELEMENTS = {
    "TYPE_FP16": TensorProto.FLOAT16,
    "TYPE_FP32": TensorProto.FLOAT,
    "TYPE_BF16": TensorProto.BFLOAT16,
    "TYPE_STRING": TensorProto.STRING,
    "TYPE_INT32": TensorProto.INT32,
    "TYPE_INT64": TensorProto.INT64,
    "TYPE_UINT64": TensorProto.UINT64,
}

_BATCH, _OPEN = "batch size", "open size"


def write_onnx(folder: Path, weights: bytes = b"") -> Path:
    """Write the ONNX network of a model directory that has its config.pbtxt, and return the file."""
    path = folder / "1" / "model.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(onnx_network(read_config(folder / "config.pbtxt"), weights))
    return path


def onnx_network(config: ModelConfig, weights: bytes = b"") -> bytes:
    """Return an ONNX network that fits a configuration.

    Its outputs are zeros, in batches as large as those of the first input. The file contains `weights` as
    they are, in an initializer, and is about 500 bytes larger.
    """
    return _onnx_network(config.SerializeToString(deterministic=True), weights)


def onnx_file(
    *, ir_version: int = 8, opset: int = 17, source: str = "x", also: Sequence[str] = (), size: int = 4
) -> bytes:
    """An ONNX network of a batch of rows, which needs one input and may list others."""
    value = helper.make_tensor_value_info
    *x, y = (value(name, TensorProto.FLOAT, ["batch", size]) for name in (source, *also, "y"))
    graph = helper.make_graph([helper.make_node("Relu", [source], ["y"])], "rows", x, [y])
    opsets = [helper.make_opsetid("", opset)]
    content: bytes = helper.make_model(graph, ir_version=ir_version, opset_imports=opsets).SerializeToString()
    return content


def side_weights(location: str = "weights.bin", **entries: int) -> bytes:
    """The same network with a weight of 64 bytes in another file."""
    model = onnx.load_model_from_string(onnx_file())
    weight = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[4, 4], data_location=TensorProto.EXTERNAL
    )
    for key, value in {"location": location, **entries}.items():
        weight.external_data.add(key=key, value=str(value))
    model.graph.initializer.append(weight)
    del model.graph.node[:]
    model.graph.node.append(helper.make_node("MatMul", ["x", "w"], ["y"]))
    return bytes(model.SerializeToString())


def script_archive(forward: str = "def forward(self: Net, x: Tensor) -> Tensor") -> bytes:
    """Return a TorchScript archive of a module whose forward() returns its argument x."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("net/data.pkl", b"\x80\x02c__torch__\nNet\nq\x00)\x81}b.")
        archive.writestr("net/code/__torch__.py", f"class Net(Module):\n  {forward}:\n    return x\n")
        archive.writestr("net/constants.pkl", b"\x80\x02).")
        archive.writestr("net/version", b"3\n")
    return content.getvalue()


@functools.lru_cache(maxsize=64)
def _onnx_network(serialized: bytes, weights: bytes) -> bytes:
    config = as_json(schema().ModelConfig.FromString(serialized))
    inputs = [_described(tensor, config) for tensor in _inputs(config)]
    outputs = [_described(tensor, config) for tensor in _outputs(config)]
    first = inputs[0].name
    nodes = [
        helper.make_node("Shape", [first], [_BATCH], end=1),
        helper.make_node("Shape", [first], [f"{first} shape"]),
        # The number of sizes other than 0 is known at run time only, so open sizes stay open.
        helper.make_node("NonZero", [f"{first} shape"], [f"{first} places"]),
        helper.make_node("Shape", [f"{first} places"], [_OPEN], start=1),
    ]
    for output in outputs:
        nodes += _zeros(output)
    # A string has no precision, so the network has none.
    content = TensorProto(name="the weights", data_type=TensorProto.STRING, dims=[1], string_data=[weights])
    graph = helper.make_graph(nodes, "network", inputs, outputs, [content] if weights else [])
    network = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    return bytes(network.SerializeToString(deterministic=True))


def _zeros(output: onnx.ValueInfoProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of an output of zeros."""
    name, tensor = output.name, output.type.tensor_type
    zero = helper.make_tensor("zero", tensor.elem_type, [], [0])
    yield helper.make_node("Constant", [], [f"{name} zero"], value=zero)
    sizes = []
    for index, size in enumerate(tensor.shape.dim):
        known = f"{name} size {index}"
        if not size.dim_param:
            yield helper.make_node("Constant", [], [known], value_ints=[size.dim_value])
        sizes.append({"": known, _BATCH: _BATCH}.get(size.dim_param, _OPEN))
    yield helper.make_node("Concat", sizes, [f"{name} shape"], axis=0)
    yield helper.make_node("Expand", [f"{name} zero", f"{name} shape"], [name])


_Tensor = tuple[str, str, Sequence[str]]
"""The name, the type and the sizes, without the batch, as in config.pbtxt."""


def _inputs(config: Mapping[str, Any]) -> Iterator[_Tensor]:
    yield from map(_listed, config["input"])
    for entry in config["batch_input"]:
        for name in entry["target_name"]:
            yield name, entry["data_type"], ["-1"]
    sequences = config.get("sequence_batching", {"control_input": [], "state": []})
    for entry in sequences["control_input"]:
        (control,) = entry["control"]
        yield entry["name"], "TYPE_FP32" if control["fp32_false_true"] else control["data_type"], ["1"]
    for state in sequences["state"]:
        yield state["input_name"], state["data_type"], state["dims"]


def _outputs(config: Mapping[str, Any]) -> Iterator[_Tensor]:
    yield from map(_listed, config["output"])
    for state in config.get("sequence_batching", {"state": []})["state"]:
        yield state["output_name"], state["data_type"], state["dims"]


def _listed(entry: Mapping[str, Any]) -> _Tensor:
    dims = entry["reshape"]["shape"] if "reshape" in entry else entry["dims"]
    return entry["name"], entry["data_type"], dims


def _described(tensor: _Tensor, config: Mapping[str, Any]) -> onnx.ValueInfoProto:
    name, data_type, dims = tensor
    sizes = [f"{name} size {index}" if size == "-1" else int(size) for index, size in enumerate(dims)]
    batch = [_BATCH] if config["max_batch_size"] > 0 else []
    return helper.make_tensor_value_info(name, _ELEMENTS[data_type], [*batch, *sizes])
