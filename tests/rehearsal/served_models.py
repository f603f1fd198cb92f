"""Small real models for the serving tests: Triton model directories, and artifacts that contain them."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

IDENTITY = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(r, "X").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)]) for x in inputs]
"""

TEXT_LENGTH = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for r in requests:
            text = pb_utils.get_input_tensor_by_name(r, "TEXT").as_numpy()
            size = np.array([[len(t.decode())] for t in text[:, 0]], dtype=np.float32)
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("SIZE", size)]))
        return answers
"""

# Answers with the fleet on which it runs.
FLEET = """
import os
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        fleet = np.array([[float(os.environ["FLEET"])]], dtype=np.float32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", fleet)]) for _ in requests]
"""


def config(
    *, backend: str, inputs: Mapping[str, str], outputs: Mapping[str, str], batch: int = 8, extra: str = ""
) -> str:
    """Return a config.pbtxt. Inputs and outputs map names to data types; a shape is one free dimension."""

    def tensors(kind: str, entries: Mapping[str, str]) -> str:
        rows = ", ".join(f'{{name: "{n}" data_type: {t} dims: [-1]}}' for n, t in entries.items())
        return f"{kind} [{rows}]\n"

    head = backend if ":" in backend else f'backend: "{backend}"'
    return f"{head}\nmax_batch_size: {batch}\n{tensors('input', inputs)}{tensors('output', outputs)}{extra}\n"


def network(
    *nodes: onnx.NodeProto,
    outputs: Sequence[str] = ("Y",),
    kind: int = TensorProto.FLOAT,
    columns: int | str = "n",
    **constants: float | Sequence[float],
) -> bytes:
    """Return an ONNX model over [batch, n], from X to its outputs."""

    def tensor(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, ["batch", columns])

    numbers = [
        onnx.numpy_helper.from_array(np.array(n, dtype=np.float32), name) for name, n in constants.items()
    ]
    graph = helper.make_graph(nodes, "network", [tensor("X")], [tensor(name) for name in outputs], numbers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())


def scaling_onnx(factor: float, *, columns: int | str = "n") -> bytes:
    """Return an ONNX model with Y = factor * X."""
    return network(helper.make_node("Mul", ["X", "factor"], ["Y"]), columns=columns, factor=factor)


def batch_size_onnx() -> bytes:
    """Return an ONNX model with Y[i] = the size of the batch in which X[i] ran."""
    return network(
        helper.make_node("Shape", ["X"], ["size"], end=1),
        helper.make_node("Cast", ["size"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["X", "zero"], ["zeros"]),
        helper.make_node("Add", ["zeros", "float"], ["Y"]),
        zero=0,
    )


def copying_onnx(outputs: Sequence[str], *, kind: int = TensorProto.FLOAT) -> bytes:
    """Return an ONNX model whose outputs are all X."""
    return network(
        *(helper.make_node("Identity", ["X"], [name]) for name in outputs), outputs=outputs, kind=kind
    )


FLOATS = json.dumps(
    {"inputs": [{"name": "X", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]}
).encode()
"""A request with one row of X."""

FLOATS_IN, FLOATS_OUT = {"X": "TYPE_FP32"}, {"Y": "TYPE_FP32"}


def python_model(source: str = IDENTITY, *, name: str = "identity", extra: str = "") -> dict[str, bytes]:
    """Return the files of an artifact with one Python model."""
    text = config(backend="python", inputs=FLOATS_IN, outputs=FLOATS_OUT, extra=extra)
    return {f"{name}/config.pbtxt": text.encode(), f"{name}/1/model.py": source.encode()}


def model_that_waits(gate: Path) -> dict[str, bytes]:
    """Return the files of a Python model that reads a pipe to its end at each request."""
    return python_model(
        IDENTITY.replace("        inputs =", f"        open({str(gate)!r}).read()\n        inputs =")
    )


def onnx_model(
    factor: float,
    *,
    name: str = "scaling",
    backend: str = "onnxruntime",
    extra: str = "",
    file: str = "model.onnx",
    batch: int = 8,
) -> dict[str, bytes]:
    """Return the files of an artifact with one ONNX model."""
    text = config(backend=backend, inputs=FLOATS_IN, outputs=FLOATS_OUT, extra=extra, batch=batch)
    return {f"{name}/config.pbtxt": text.encode(), f"{name}/1/{file}": scaling_onnx(factor)}


def ensemble(factor: float, *, name: str = "ensemble", backend: str = "onnxruntime") -> dict[str, bytes]:
    """Return the files of an artifact with an ensemble: string → its length (Python) → times a factor (ONNX).

    The composing models have the same names in every such artifact, which a good artifact avoids.
    """
    steps = """
platform: "ensemble"
max_batch_size: 8
input [{name: "TEXT" data_type: TYPE_STRING dims: [1]}]
output [{name: "Y" data_type: TYPE_FP32 dims: [-1]}]
ensemble_scheduling { step [
  { model_name: "length" model_version: -1
    input_map {key: "TEXT" value: "TEXT"} output_map {key: "SIZE" value: "size"} },
  { model_name: "times" model_version: -1
    input_map {key: "X" value: "size"} output_map {key: "Y" value: "Y"} }
] }
"""
    length = config(backend="python", inputs={"TEXT": "TYPE_STRING"}, outputs={"SIZE": "TYPE_FP32"})
    return {
        f"{name}/config.pbtxt": steps.encode(),
        f"{name}/1/.keep": b"",
        "length/config.pbtxt": length.encode(),
        "length/1/model.py": TEXT_LENGTH.encode(),
        **onnx_model(factor, name="times", backend=backend),
    }


def write(files: Mapping[str, bytes], folder: Path) -> Path:
    """Write the files below a folder and return the folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def tarball(files: Mapping[str, bytes]) -> bytes:
    """Return the files as a .tar.gz."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=1) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()
