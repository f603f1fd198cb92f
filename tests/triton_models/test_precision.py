"""The precision of files that no declaration describes is the type of most of their weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.triton_models.check_case import run
from tests.triton_models.model_folders import write_plain
from triton_models.artifact.precision import onnx_precision, precision_by_files


def save(path: Path, *weights: onnx.TensorProto) -> Path:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "XY"]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["X"], ["Y"])], "g", values[:1], values[1:], list(weights)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def weight(name: str, dtype: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.zeros(shape, dtype), name)


BF16 = helper.make_tensor("b", TensorProto.BFLOAT16, [4], [0.0] * 4)


@pytest.mark.parametrize(
    ("weights", "precision"),
    [
        ([weight("w", "float32", 8, 8)], "fp32"),
        ([weight("n1", "float32", 8), weight("n2", "float32", 8), weight("w", "float16", 8, 8)], "fp16"),
        ([weight("w", "int8", 8, 8), weight("scale", "float32", 8)], "int8"),
        ([weight("w", "float32", 8), weight("shape", "int64", 64)], "fp32"),
        ([BF16], "bf16"),
        ([weight("scalar", "float16")], "fp16"),
        ([weight("w", "float64", 8, 8), weight("n", "float32", 8)], "fp64"),
        ([], None),
    ],
)
def test_a_file_computes_in_the_type_of_most_of_its_weights(
    weights: list[onnx.TensorProto], precision: str | None, tmp_path: Path
) -> None:
    assert onnx_precision(save(tmp_path / "model.onnx", *weights)) == precision


def test_a_file_without_weights_is_in_fp64_if_an_output_is(tmp_path: Path) -> None:
    path = save(tmp_path / "model.onnx")
    network = onnx.load(path)
    network.graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    onnx.save(network, path)
    assert onnx_precision(path) == "fp64"


@pytest.mark.parametrize("content", [b"", b"w", b"\x00" * 64, b"\xff" * 64, b"\x3a\x7f"])
def test_a_file_that_is_no_network_has_no_precision(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    assert onnx_precision(tmp_path / "model.onnx") is None


def test_a_directory_without_a_record_of_its_build_has_the_precision_of_its_files(tmp_path: Path) -> None:
    folder = write_plain(tmp_path / "resnet50")
    save(tmp_path / "a" / "1" / "model.onnx", weight("w", "float16", 8))
    save(tmp_path / "b" / "1" / "model.onnx", weight("w", "float32", 8))

    assert precision_by_files(tmp_path) == "fp16+fp32"
    assert precision_by_files(folder) == ""
    assert list(run(folder).lines()) == [f"{folder}: accepted"]
