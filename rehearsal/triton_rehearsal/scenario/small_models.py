"""The models of a scenario: the answer of model N is N times its input, so that a wrong answer shows."""

from __future__ import annotations

import io
import tarfile

import numpy as np

INPUT, OUTPUT = "X", "Y"
_CONFIG = f"""max_batch_size: 8
input [{{name: "{INPUT}" data_type: TYPE_FP32 dims: [-1]}}]
output [{{name: "{OUTPUT}" data_type: TYPE_FP32 dims: [-1]}}]
"""


def target_of(number: int) -> str:
    """Return the name of a model's artifact."""
    return f"model-{number}.tar.gz"


def artifact(number: int, *, size: int, backend: str) -> bytes:
    """Return the artifact of a model.

    Args:
        number: The model's number.
        size: The bytes of its weights, which it takes on a GPU.
        backend: Its backend, `tensorrt` on a GPU or `onnxruntime`.
    """
    files = {
        "model/config.pbtxt": f'backend: "{backend}"\n{_CONFIG}'.encode(),
        "model/1/model.onnx": _network(float(number)),
        "model/1/model.onnx.data": bytes(size),
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _network(factor: float) -> bytes:
    import onnx
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Mul", [INPUT, "factor"], [OUTPUT])],
        "scaling",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, ["batch", "n"])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", "n"])],
        [onnx.numpy_helper.from_array(np.array(factor, dtype=np.float32), "factor")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())
