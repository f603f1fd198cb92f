"""`fleet check` compares outputs with what ONNX Runtime infers, and with what the server completes."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.triton_models.real_networks import side_weights
from triton_models.check import onnx_network
from triton_models.check.check import check_path
from triton_models.check.target import PLAIN, CheckTarget, target

LISTED = replace(PLAIN, auto_complete=False)
Sizes = Sequence[Any]


def value(name: str, sizes: Sizes | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, sizes)


def integers(name: str, *numbers: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(numbers, np.int64), name)


def file_of(
    nodes: Sequence[onnx.NodeProto],
    x: Sizes,
    y: Sizes | None,
    *weights: onnx.TensorProto,
    listed: bool = False,
) -> bytes:
    inputs = [value("x", x), *([value(w.name, w.dims) for w in weights] if listed else [])]
    graph = helper.make_graph(nodes, "g", inputs, [value("y", y)], list(weights))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())


NODE = helper.make_node
RELU = [NODE("Relu", ["x"], ["y"])]
MATMUL = file_of(
    [NODE("MatMul", ["x", "w"], ["y"])],
    ["b", 8],
    ["b", "classes"],
    numpy_helper.from_array(np.ones((8, 16), np.float32), "w"),
)
RESHAPE = file_of([NODE("Reshape", ["x", "to"], ["y"])], ["b", 4], ["n", "four"], integers("to", 91, 4))
FOLDED = file_of(
    [NODE("Concat", ["a", "b"], ["to"], axis=0), NODE("Reshape", ["x", "to"], ["y"])],
    ["n", 4],
    ["n", "four"],
    integers("a", 91),
    integers("b", 4),
)
OPEN = file_of(RELU, ["b", "n"], ["b", "n"])
UNKNOWN = file_of([NODE("Reshape", ["x", "to"], ["y"])], ["b", 4], None, integers("to", -1, 2))


def write_model(folder: Path, content: bytes, *, batch: int, x: str, y: str, extra: str = "") -> Path:
    (folder / "m" / "1").mkdir(parents=True, exist_ok=True)
    (folder / "m" / "1" / "model.onnx").write_bytes(content)
    sides = "".join(
        f'{side} {{ name: "{name}" data_type: TYPE_FP32 {dims} }}\n'
        for side, name, dims in (("input", "x", x), ("output", "y", y))
        if dims
    )
    text = f'backend: "onnxruntime"\nmax_batch_size: {batch}\n{sides}{extra}'
    (folder / "m" / "config.pbtxt").write_text(text)
    return folder / "m"


def rules(path: Path, target: CheckTarget = LISTED) -> list[str]:
    return sorted({problem.rule for problem in check_path(path, target=target)})


@pytest.mark.parametrize(
    ("content", "batch", "x", "outputs"),
    [
        (MATMUL, 8, "dims: [ 8 ]", ("dims: [ 16 ]", "dims: [ -1 ]")),
        (RESHAPE, 0, "dims: [ -1, 4 ]", ("dims: [ 91, 4 ]", "dims: [ -1, -1 ]")),
        (FOLDED, 0, "dims: [ -1, 4 ]", ("dims: [ 91, 4 ]", "dims: [ -1, -1 ]")),
        (OPEN, 8, "dims: [ 7 ]", ("dims: [ -1 ]", "dims: [ 7 ]")),
        (UNKNOWN, 8, "dims: [ 4 ]", ("dims: [ 2 ]", "dims: [ 3 ]")),
    ],
    ids=["a product", "a reshape", "folded constants", "an open output", "an output without a shape"],
)
def test_outputs_have_exactly_the_sizes_that_onnx_runtime_infers(
    content: bytes, batch: int, x: str, outputs: tuple[str, str], tmp_path: Path
) -> None:
    right, wrong = outputs
    assert rules(write_model(tmp_path, content, batch=batch, x=x, y=right)) == []
    assert rules(write_model(tmp_path, content, batch=batch, x=x, y=wrong)) == ["onnx-tensor"]


def test_the_optimization_level_decides_which_sizes_are_known(tmp_path: Path) -> None:
    unfolded = "optimization { graph { level: 2 } }"
    options = {"batch": 0, "x": "dims: [ -1, 4 ]", "extra": unfolded}
    assert rules(write_model(tmp_path, FOLDED, y="dims: [ -1, -1 ]", **options)) == []
    assert rules(write_model(tmp_path, FOLDED, y="dims: [ 91, 4 ]", **options)) == ["onnx-tensor"]


def test_without_onnx_runtime_the_sizes_of_the_build_count_and_else_nothing_is_pretended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_network, "session_of", lambda *_, **__: None)
    monkeypatch.setattr(onnx_network, "_inferred", lambda _: {})
    path = write_model(tmp_path, MATMUL, batch=8, x="dims: [ 8 ]", y="dims: [ -1 ]")
    assert rules(path) == []  # the file alone does not say
    (tmp_path / "build.json").write_text(json.dumps({"onnx_outputs": {"m": {"y": [-1, 16]}}}))
    assert rules(tmp_path) == ["onnx-tensor"]


def test_the_package_onnx_infers_sizes_where_onnx_runtime_cannot_load_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_network, "session_of", lambda *_, **__: None)
    assert rules(write_model(tmp_path, MATMUL, batch=8, x="dims: [ 8 ]", y="dims: [ 16 ]")) == []
    assert rules(write_model(tmp_path, MATMUL, batch=8, x="dims: [ 8 ]", y="dims: [ -1 ]")) == ["onnx-tensor"]


def test_a_file_in_an_archive_is_compared_as_well(tmp_path: Path) -> None:
    for dims, expected in (("[ 16 ]", []), ("[ -1 ]", ["onnx-tensor"])):
        path = write_model(tmp_path, MATMUL, batch=8, x="dims: [ 8 ]", y=f"dims: {dims}")
        with tarfile.open(tmp_path / "m.tar.gz", "w:gz") as archive:
            archive.add(path, arcname="m")
        assert rules(tmp_path / "m.tar.gz") == expected


def test_a_folder_of_the_files_name_is_opened(tmp_path: Path) -> None:
    path = write_model(tmp_path, OPEN, batch=8, x="dims: [ 7 ]", y="dims: [ 7 ]")
    file = path / "1" / "model.onnx"
    file.unlink()
    file.mkdir()
    (file / "model.onnx").write_bytes(OPEN)
    assert rules(path) == ["onnx-tensor"]


ROWS = file_of(RELU, ["b", 4], ["b", 4])
FIXED = file_of(RELU, [3, 4], [3, 4])


@pytest.mark.parametrize(
    ("content", "batch", "x", "expected"),
    [
        (ROWS, 0, "dims: [ 4 ]", []),  # the server writes max_batch_size: 4
        (ROWS, 0, "dims: [ -1, 4 ]", ["onnx-tensor"]),
        (ROWS, 2, "dims: [ 4 ]", []),
        (ROWS, 2, "", []),
        (FIXED, 8, "dims: [ 4 ]", ["onnx-tensor"]),
        (FIXED, 8, "", ["onnx-tensor"]),
        (FIXED, 0, "dims: [ 3, 4 ]", []),
        (FIXED, 0, "dims: [ 4 ]", ["onnx-tensor"]),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else str(value),
)
def test_a_configuration_without_outputs_is_checked_as_the_server_completes_it(
    content: bytes, batch: int, x: str, expected: list[str], tmp_path: Path
) -> None:
    assert rules(write_model(tmp_path, content, batch=batch, x=x, y=""), PLAIN) == expected


def test_the_weights_in_another_file_are_read_as_onnx_runtime_reads_them(tmp_path: Path) -> None:
    options = {"batch": 8, "x": "dims: [ 4 ]", "y": "dims: [ 4 ]"}
    path = write_model(tmp_path, side_weights(), **options)
    assert rules(path) == ["onnx-side-file"]
    (path / "1" / "weights.bin").write_bytes(bytes(64))
    assert rules(path) == []
    # Until ONNX Runtime 1.24, also outside of the file's folder.
    (path / "1" / "weights.bin").rename(path / "weights.bin")
    path = write_model(tmp_path, side_weights("../weights.bin"), **options)
    assert rules(path) == []


def test_a_name_that_is_no_text_is_refused_without_a_word_of_onnx_runtime(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write_model(tmp_path, b"", batch=8, x="dims: [ 4 ]", y="dims: [ 4 ]")
    damaged = ROWS.replace(b"Relu", b"\xfcelu")
    assert damaged != ROWS
    (path / "1" / "model.onnx").write_bytes(damaged)
    rules(path)
    assert capfd.readouterr() == ("", "")


def any_file(*nodes: onnx.NodeProto, y: int = onnx.TensorProto.FLOAT, **opsets: int) -> bytes:
    """Return a file with one input, without a check of its operators."""
    outputs = [helper.make_tensor_value_info("y", y, ["b", 4])]
    weights = [
        numpy_helper.from_array(np.ones((5, 4), np.float32), "w"),
        numpy_helper.from_array(np.ones(4, np.int64), "i"),
    ]
    graph = helper.make_graph(nodes, "g", [value("x", ["b", 4])], outputs, weights)
    domains = {"": 17, "com.microsoft": 1} | {name.replace("_", "."): given for name, given in opsets.items()}
    imports = [helper.make_opsetid(*each) for each in domains.items()]
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString())


WHOLE = any_file(*RELU)
FOREIGN = any_file(NODE("Foo", ["x"], ["y"], domain="my.ops"), my_ops=1)
SCALER = NODE("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[0.0], scale=[1.0])
CONVERT = NODE("Cast", ["x"], ["z"], to=onnx.TensorProto.UINT16), NODE("Neg", ["z"], ["u"])
INVALID = {
    "an unknown domain": (FOREIGN, "my.ops:Foo(-1) is not a registered"),
    "an unknown operator": (any_file(NODE("Negate", ["x"], ["y"])), "No Op registered for Negate"),
    "an unknown operator of Microsoft": (
        any_file(NODE("Foo", ["x"], ["y"], domain="com.microsoft")),
        "com.microsoft:Foo(-1) is not a registered",
    ),
    "a dangling input": (any_file(NODE("Add", ["x", "missing"], ["y"])), "Node input 'missing'"),
    "an output never made": (any_file(NODE("Neg", ["x"], ["z"])), "Graph output (y) does not exist"),
    "a name twice": (any_file(*RELU, NODE("Abs", ["x"], ["y"])), "Duplicate definition of name (y)"),
    "two types": (any_file(NODE("Add", ["x", "i"], ["y"])), "Type parameter (T) of Optype (Add)"),
    "wrong sizes": (any_file(NODE("MatMul", ["x", "w"], ["y"])), "Incompatible dimensions"),
    "another output type": (any_file(*RELU, y=onnx.TensorProto.DOUBLE), "Type (tensor(double)) of output"),
    "a type that Neg never takes": (any_file(*CONVERT, NODE("Cast", ["u"], ["y"], to=1)), "tensor(uint16)"),
    "operators of the future": (any_file(SCALER, ai_onnx_ml=9), "Opset 9 is under development"),
    "a cut file": (WHOLE[:-20], "not an ONNX file, or cut"),
    "an empty file": (b"", "model.onnx is empty"),
    "a page": (b"<html>404</html>", "not an ONNX file, or cut"),
}


@pytest.mark.parametrize("name", INVALID)
def test_a_file_that_onnx_runtime_refuses_on_every_device_is_refused(name: str, tmp_path: Path) -> None:
    content, said = INVALID[name]
    path = write_model(tmp_path, content, batch=8, x="dims: [ 4 ]", y="dims: [ 4 ]")
    [problem] = check_path(path, target=LISTED)
    assert problem.rule == "onnx-file"
    assert said in problem.what
    assert str(tmp_path) not in problem.what
    assert "ONNXRuntimeError" not in problem.what
    assert ".cc:" not in problem.what
    assert ".h:" not in problem.what
    packed = tmp_path / "model.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(path, "m")
    assert rules(packed) == ["onnx-file"]


def test_no_onnx_at_all_is_refused_without_onnx_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_network, "session_of", lambda *_, **__: None)
    for content in (b"", b"<html>404</html>", WHOLE[:-20]):
        path = write_model(tmp_path, content, batch=8, x="dims: [ 4 ]", y="dims: [ 4 ]")
        assert rules(path) == ["onnx-file"]


def test_an_operator_library_is_the_fix_of_an_unknown_domain(tmp_path: Path) -> None:
    options = {"batch": 8, "x": "dims: [ 4 ]", "y": "dims: [ 4 ]"}
    [problem] = check_path(write_model(tmp_path, FOREIGN, **options), target=LISTED)
    fix = 'model_operations { op_library_filename: "/path/in/the/image.so" }'
    assert fix in (problem.fix or "")
    assert rules(write_model(tmp_path, FOREIGN, extra=fix, **options)) == []


@pytest.mark.parametrize(
    "nodes",
    [
        [NODE("EPContext", ["x"], ["y"], domain="com.microsoft", embed_mode=1, ep_cache_context="")],
        [NODE("Gelu", ["x"], ["y"], domain="com.microsoft")],
        [
            NODE("Cast", ["x"], ["h"], to=onnx.TensorProto.BFLOAT16),
            NODE("Erf", ["h"], ["e"]),
            NODE("Cast", ["e"], ["y"], to=1),
        ],
        [NODE("NhwcConv", ["i4", "k"], ["z"], domain="com.microsoft"), *RELU],
    ],
    ids=["a compiled part", "an operator of Microsoft", "BF16 without code for CPUs", "an operator of GPUs"],
)
def test_an_operator_that_only_this_cpu_lacks_is_not_judged(
    nodes: list[onnx.NodeProto], tmp_path: Path
) -> None:
    if nodes[0].op_type == "NhwcConv":
        shape = NODE("Constant", [], ["s"], value=integers("s", 1, 2, 2, -1))
        kernel = numpy_helper.from_array(np.ones((1, 1, 1, 1), np.float32))
        nodes = [
            shape,
            NODE("Constant", [], ["k"], value=kernel),
            NODE("Reshape", ["x", "s"], ["i4"]),
            *nodes,
        ]
    assert rules(write_model(tmp_path, any_file(*nodes), batch=8, x="dims: [ 4 ]", y="dims: [ 4 ]")) == []


def test_an_older_onnx_runtime_than_the_servers_does_not_judge_operators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_model(tmp_path, INVALID["an unknown operator"][0], batch=8, x="dims: [ 4 ]", y="dims: [ 4 ]")
    monkeypatch.setattr("onnxruntime.__version__", "1.15.0")
    assert rules(path, target(release="25.09")) == []
    monkeypatch.setattr("onnxruntime.__version__", "1.24.0")
    assert rules(path, target(release="25.09")) == ["onnx-file"]
