"""The floor of a network: its arithmetic and its bytes, counted from shapes, and divided by a GPU's peaks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from triton_models.base.errors import FleetError
from triton_models.builds.build import build
from triton_models.builds.floor import NetworkCost, network_cost
from triton_models.cli.main import main
from triton_models.facts.gpu_peaks import PEAKS
from triton_models.facts.instances import GPUS

MATRIX = """
from triton_models.spec import ModelDefinition, OnnxRuntime, PyTorchNetwork, Tensor, TensorRt

def network():
    import torch
    return torch.nn.Linear(512, 1024)

def declared(name, backend):
    return ModelDefinition(
        name=name,
        description="a matrix",
        examples=list,
        output="y",
        tolerance=0.1,
        models=[
            PyTorchNetwork(
                name=name,
                network=network,
                inputs=[Tensor("x", "FP32", [512])],
                outputs=["y"],
                backend=backend,
                max_batch_size=16,
            )
        ],
    )

BUILD = declared("matrix", OnnxRuntime())
FORMS = dict(half=declared("matrix_half", TensorRt(precision="fp16")))
"""


def cost(
    folder: Path,
    nodes: list[Any],
    inputs: dict[str, list[int]],
    *,
    weights: dict[str, Any] | None = None,
    integers: tuple[str, ...] = (),
) -> NetworkCost:
    """Return the cost of a network of these nodes, whose output is "y"."""
    kinds = {name: TensorProto.INT64 if name in integers else TensorProto.FLOAT for name in inputs}
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info(name, kinds[name], [None] * len(shape))
            for name, shape in inputs.items()
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid(*each) for each in (("", 18), ("own", 1), ("com.microsoft", 1))]
    path = folder / "1" / "model.onnx"
    path.parent.mkdir(exist_ok=True)
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=opsets), path)
    return network_cost(path, inputs)


def floats(*shape: int) -> Any:
    return np.ones(shape, dtype=np.float32)


@pytest.mark.parametrize(
    ("node", "inputs", "weights", "operations"),
    [
        (helper.make_node("MatMul", ["x", "w"], ["y"]), [8, 64], floats(64, 32), 2 * 8 * 64 * 32),
        (helper.make_node("Gemm", ["x", "w"], ["y"], transA=1), [64, 8], floats(64, 32), 2 * 8 * 64 * 32),
        (
            helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1], strides=[2, 2]),
            [2, 16, 10, 10],
            floats(32, 16, 3, 3),
            2 * (2 * 32 * 5 * 5) * (16 * 3 * 3),
        ),
        (
            helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2]),
            [2, 16, 5, 5],
            floats(16, 8, 2, 2),
            2 * (2 * 16 * 5 * 5) * (8 * 2 * 2),
        ),
        (
            helper.make_node("Einsum", ["x", "w"], ["y"], equation="bij, jk -> bik"),
            [2, 3, 64],
            floats(64, 32),
            2 * 2 * 3 * 64 * 32,
        ),
    ],
    ids=lambda each: getattr(each, "op_type", ""),
)
def test_a_multiplication_and_an_addition_are_two_operations(node, inputs, weights, operations, tmp_path):
    found = cost(tmp_path, [node], {"x": inputs}, weights={"w": weights})
    assert found.operations == operations
    assert found.weights == weights.size
    assert found.uncounted == {}


def test_values_between_operators_count_apart_from_inputs_outputs_and_weights(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    found = cost(tmp_path, nodes, {"x": [8, 64]}, weights={"w": floats(64, 32)})
    assert (found.weights, found.between, found.ends) == (64 * 32, 8 * 32, 4 * (8 * 64 + 8 * 32))


def test_values_that_are_alive_at_once_share_their_buffers(tmp_path):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),  # in place
        helper.make_node("Reshape", ["b", "shape"], ["c"]),  # a view
        helper.make_node("MatMul", ["c", "v"], ["d"]),  # a is still there
        helper.make_node("MatMul", ["d", "u"], ["y"]),  # a is free
    ]
    weights = {"w": floats(64, 32), "v": floats(64, 16), "u": floats(16, 4), "shape": np.array([4, 64])}
    found = cost(tmp_path, nodes, {"x": [8, 64]}, weights=weights).live
    assert (found.numbers, found.bytes, found.convolutional) == (
        8 * 32 + 4 * 16,
        4 * (8 * 32 + 4 * 16),
        False,
    )


def test_a_residual_keeps_its_value_alive(tmp_path):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Tanh", ["a"], ["b"]),  # not in place, because a is added later
        helper.make_node("MatMul", ["b", "v"], ["c"]),
        helper.make_node("Add", ["a", "c"], ["y"]),  # in place of a or c
    ]
    found = cost(tmp_path, nodes, {"x": [8, 64]}, weights={"w": floats(64, 64), "v": floats(64, 64)}).live
    assert found.numbers == 3 * 8 * 64


def test_of_a_table_of_embeddings_only_the_rows_are_read(tmp_path):
    node = helper.make_node("Gather", ["table", "ids"], ["y"])
    found = cost(tmp_path, [node], {"ids": [4, 3]}, weights={"table": floats(5000, 16)}, integers=("ids",))
    assert found.weights == 4 * 3 * 16


def test_a_table_counts_once_however_often_its_rows_are_read_and_fully_where_a_product_reads_it(tmp_path):
    gather, ids = helper.make_node("Gather", ["table", "ids"], ["rows"]), {"ids": [4, 500]}
    relu = helper.make_node("Relu", ["rows"], ["y"])
    product = helper.make_node("MatMul", ["rows", "table"], ["y"])
    given = {"weights": {"table": floats(64, 64)}, "integers": ("ids",)}
    assert cost(tmp_path, [gather, relu], ids, **given).weights == 64 * 64
    assert cost(tmp_path, [gather, product], {"ids": [1, 2]}, **given).weights == 64 * 64


def test_an_operator_without_a_rule_is_named(tmp_path):
    nodes = [helper.make_node("Det", ["x"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    assert cost(tmp_path, nodes, {"x": [8, 3, 3]}).uncounted == {"Det": 1}


def test_a_fused_attention_counts_as_its_products(tmp_path):
    inputs, weights = {"x": [2, 6, 8]}, {"w": floats(8, 24), "b": floats(24)}
    fused = helper.make_node("Attention", ["x", "w", "b"], ["h"], domain="com.microsoft", num_heads=2)
    after = helper.make_node("BiasGelu", ["h", "bias"], ["y"], domain="com.microsoft")
    found = cost(tmp_path, [fused, after], inputs, weights={**weights, "bias": floats(8)})
    assert found.operations == 2 * 2 * 6 * 8 * 24 + 2 * (2 * 2 * 6 * 6 * 8)
    assert (found.between, dict(found.uncounted)) == (2 * 6 * 8, {})


def test_an_operator_that_nobody_knows_is_an_error_that_names_its_value(tmp_path):
    nodes = [helper.make_node("Mine", ["x"], ["h"], domain="own"), helper.make_node("Relu", ["h"], ["y"])]
    with pytest.raises(FleetError, match="the shape of 'h' cannot be derived"):
        cost(tmp_path, nodes, {"x": [2, 6]})


def test_a_build_records_what_one_row_and_a_large_batch_of_each_network_cost(declare, models, tmp_path):
    declare("matrix", declaration=MATRIX)
    root = build("matrix", models=models, output=tmp_path / "out")
    recorded = json.loads((root / "build.json").read_text())["networks"]["matrix"]
    assert all(each["live"] >= each["batch"] for each in recorded)
    assert [(each["batch"], each["operations"]) for each in recorded] == [
        (1, 2 * 512 * 1024),
        (8, 8 * 2 * 512 * 1024),
    ]


def test_a_network_whose_shapes_depend_on_its_data_has_no_floor(tmp_path):
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("MatMul", ["x", "places"], ["y"]),
    ]
    with pytest.raises(FleetError) as caught:
        cost(tmp_path, nodes, {"x": [2, 2]})
    assert [problem.rule for problem in caught.value.problems] == ["network-cost"]


def test_values_between_convolutions_count_even_if_all_else_is_fused(tmp_path):
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c", "b"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    found = cost(tmp_path, nodes, {"x": [2, 8, 10, 10]}, weights={"w": floats(8, 8, 3, 3)})
    one = 2 * 8 * 10 * 10
    assert (found.between, found.groups) == (4 * one, one)  # the second convolution ends as the output
    moved = 4 * (2 * found.groups + found.weights) + found.ends
    assert found.floor(PEAKS["T4"], "fp32").bytes_s == pytest.approx(moved / 320e9)


def test_scores_of_attention_are_within_a_group(tmp_path):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["q"]),
        helper.make_node("Transpose", ["q"], ["k"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "k"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["p"]),
        helper.make_node("MatMul", ["p", "q"], ["y"]),
    ]
    assert cost(tmp_path, nodes, {"x": [2, 6, 8]}, weights={"w": floats(8, 8)}).groups == 2 * 6 * 8


def test_the_footnote_explains_only_columns_that_are_shown(declare, models, capsys, monkeypatch):
    declare("matrix", declaration=MATRIX)
    for columns, shown in (("80", False), ("200", True)):
        monkeypatch.setenv("COLUMNS", columns)
        assert main(["compare", "matrix", "--gpu", "B200", "--models", str(models)]) == 0
        assert ("unfused" in capsys.readouterr().out) is shown


def test_the_floor_is_the_longer_one_of_arithmetic_and_bytes():
    peaks = PEAKS["T4"]
    cost = NetworkCost(
        batch=4, operations=8.1e9, weights=80_000_000, between=0, groups=0, ends=0, uncounted={}
    )
    single, half = cost.floor(peaks, "fp32"), cost.floor(peaks, "fp16")
    assert (single.least_s, single.larger) == (pytest.approx(1e-3), "arithmetic")
    assert (half.least_s, half.larger) == (pytest.approx(0.5e-3), "bytes")
    assert half.rows_per_second == pytest.approx(8000)


def test_compare_prints_the_floors_of_all_forms_without_a_gpu(declare, models, capsys):
    declare("matrix", declaration=MATRIX)
    assert main(["compare", "matrix", "--gpu", "A10G", "--models", str(models), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["networks"]
    assert [(row["name"], row["precision"], row["batch"]) for row in rows] == [
        ("matrix", "fp32", 1),
        ("matrix", "fp32", 8),
        ("matrix:half", "fp16", 1),
        ("matrix:half", "fp16", 8),
    ]
    assert {row["operations"] / row["batch"] for row in rows} == {2 * 512 * 1024}
    assert rows[2]["bytes_ms"] < rows[0]["bytes_ms"]


def test_every_gpu_of_the_instance_table_has_peaks():
    assert PEAKS.keys() == GPUS.keys()
    for peaks in PEAKS.values():
        assert peaks.per_second["fp32"] <= peaks.per_second["tf32"] <= peaks.per_second["fp16"], peaks.gpu


def test_a_gpu_without_known_peaks_is_refused(declare, models, capsys, monkeypatch):
    declare("matrix", declaration=MATRIX)
    monkeypatch.setattr("triton_models.facts.gpu_peaks.PEAKS", {"A10G": PEAKS["A10G"]})
    assert main(["compare", "matrix", "--gpu", "B300", "--models", str(models), "--json"]) == 1
    assert [each["rule"] for each in json.loads(capsys.readouterr().out)["error"]] == ["gpu-peaks"]


def test_a_network_that_fails_is_named_with_its_line_and_prints_into_no_result(declare, models, capsys):
    code = "    import torch\n    return torch.nn.Linear(512, 1024)"
    declare("matrix", declaration=MATRIX.replace(code, "    print('hello')\n    return 1 / 0"))
    assert main(["compare", "matrix", "--gpu", "A10G", "--models", str(models), "--json"]) == 1
    (problem,) = json.loads(capsys.readouterr().out)["error"]
    assert problem["rule"] == "build-failed"
    assert "build.py:" in problem["where"]


SIZED = """
import numpy as np
from triton_models.spec import *

def network():
    import torch
    class Net(torch.nn.Module):
        def forward(self, x):
            return torch.softmax(x @ x.transpose(1, 2), -1) @ x
    return Net()

BUILD = ModelDefinition(
    name="net", description="made up", output="y", reference=dict, tolerance={"fp32": 1e-3},
    examples=lambda: [Example(name="one", inputs={"x": np.ones((1, 4, 8), np.float32)})],
    models=[
        PyTorchNetwork(
            name="net", network=network, outputs=["y"], max_batch_size=2,
            backend=OnnxRuntime(precision="fp32"),
            inputs=[Tensor("x", "FP32", [DynamicDim(name="tokens", min=2, opt=16, max=256), 8])],
        )
    ],
)
"""


def test_what_a_build_records_as_alive_is_that_of_the_largest_sizes(tmp_path):
    folder = tmp_path / "models" / "net"
    folder.mkdir(parents=True)
    (folder / "build.py").write_text(SIZED)
    root = build("net", models=tmp_path / "models", output=tmp_path / "out")
    (one,) = json.loads((root / "build.json").read_text())["networks"]["net"]
    assert one["live"] >= 256 * 256
    assert one["operations"] == 2 * 2 * 16 * 16 * 8
