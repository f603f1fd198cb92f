"""ONNX files are checked before they are served: the checker, strict inference, and the size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.reported import refused
from triton_models.base.errors import FleetError
from triton_models.builds.build import build
from triton_models.builds.export import onnx as exporting
from triton_models.builds.export.onnx import export_onnx
from triton_models.builds.inputs import find_inputs

DECLARED = """
from triton_models.spec import LocalWeights, ModelDefinition, OnnxFile

BUILD = ModelDefinition(
    name={name!r},
    description="made up",
    weights=LocalWeights(path="{file}"),
    models=[OnnxFile(name={name!r}, max_batch_size=8{options})],
    examples=list,
    reference=dict,
    output="Y",
    tolerance=0.0,
)
"""


def model(*nodes, initializers=(), inputs=("batch", 4), outputs=("batch", 4), domains=()) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "made up",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, list(inputs))],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, list(outputs))],
        list(initializers),
    )
    opsets = [helper.make_opsetid("", 18), *(helper.make_opsetid(each, 1) for each in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def relu(**given) -> onnx.ModelProto:
    return model(helper.make_node("Relu", ["X"], ["Y"]), **given)


def declaration(file: Path, *, options: str = "") -> str:
    return DECLARED.replace("{file}", str(file)).replace("{options}", options)


@pytest.fixture
def build_of(tmp_path, declare, models):
    """Build a model that is an ONNX file somewhere; returns the file as it is served."""

    def make(file: Path, *, options: str = "") -> Path:
        declare("ready", declaration=declaration(file, options=options))
        return build("ready", output=tmp_path / "out", models=models) / "ready" / "1" / "model.onnx"

    return make


@pytest.fixture
def built(tmp_path, build_of):
    """The same of a content."""

    def make(content: bytes, *, options: str = "") -> Path:
        (tmp_path / "given.onnx").write_bytes(content)
        return build_of(tmp_path / "given.onnx", options=options)

    return make


def in_two_files(folder: Path) -> Path:
    """Write a file whose weights are in another one, as PyTorch's exporter does by default."""
    weights = numpy_helper.from_array(np.arange(4096, dtype=np.float32), "W")
    network = model(
        helper.make_node("Add", ["X", "W"], ["Y"]),
        initializers=[weights],
        inputs=("batch", 4096),
        outputs=("batch", 4096),
    )
    file = folder / "fraud.onnx"
    onnx.save_model(network, file, save_as_external_data=True, location="fraud.onnx.data")
    assert sorted(each.name for each in folder.glob("fraud*")) == ["fraud.onnx", "fraud.onnx.data"]
    return file


def test_a_side_file_becomes_part_of_the_served_file(tmp_path, build_of):
    served = build_of(in_two_files(tmp_path))

    assert [each.name for each in served.parent.iterdir()] == ["model.onnx"]
    ones = np.ones((1, 4096), dtype=np.float32)
    assert np.array_equal(ReferenceEvaluator(str(served)).run(None, {"X": ones})[0][0], 1 + np.arange(4096))


def test_files_that_are_too_large_for_one_stay_two(tmp_path, build_of, monkeypatch):
    monkeypatch.setattr(exporting, "LARGEST_BYTES", 4096)

    served = build_of(in_two_files(tmp_path))

    assert sorted(each.name for each in served.parent.iterdir()) == ["fraud.onnx.data", "model.onnx"]


def test_a_missing_side_file_is_named(tmp_path, build_of):
    file = in_two_files(tmp_path)
    file.with_name("fraud.onnx.data").unlink()

    problem = refused(build_of, file)
    assert (problem.rule, problem.what) == (
        "weights",
        "fraud.onnx keeps its weights in fraud.onnx.data, which is missing",
    )


def test_a_changed_side_file_changes_the_inputs_of_the_build(tmp_path, declare, models):
    file = in_two_files(tmp_path)
    declare("ready", declaration=declaration(file))
    before = find_inputs("ready", release="25.09", models=models).inputs["weights"]

    file.with_name("fraud.onnx.data").write_bytes(bytes(4 * 4096))

    assert find_inputs("ready", release="25.09", models=models).inputs["weights"] != before


CONTRADICTIONS = {
    "no ONNX at all": (b"not a protobuf", "Unable to parse proto"),
    "cut off": (relu().SerializeToString()[:-5], "Unable to parse proto"),
    "empty": (b"", "not valid ONNX"),
    "an operator that ONNX has not": (
        model(helper.make_node("Nonsense", ["X"], ["Y"])).SerializeToString(),
        "No Op registered for Nonsense",
    ),
    "a tensor from nowhere": (
        model(helper.make_node("Relu", ["Z"], ["Y"])).SerializeToString(),
        "input 'Z' of node",
    ),
    "a type that the operator does not take": (
        model(helper.make_node("And", ["X", "X"], ["Y"])).SerializeToString(),
        "unsupported type",
    ),
    "another shape than it says": (relu(outputs=("batch", 7)).SerializeToString(), "differ in dimension 1"),
}


@pytest.mark.parametrize("kind", CONTRADICTIONS)
def test_a_file_that_contradicts_itself_is_one_error_with_the_models_name(kind, built, tmp_path):
    content, said = CONTRADICTIONS[kind]
    problem = refused(built, content)
    assert problem.rule == "network-file"
    assert problem.where.startswith("model 'ready': ")
    assert said in problem.what
    assert str(tmp_path) not in problem.what
    assert not (tmp_path / "out").exists()


def test_operators_of_onnx_runtimes_own_are_left_alone(built):
    node = helper.make_node("Gelu", ["X"], ["Y"], domain="com.microsoft")
    content = model(node, domains=["com.microsoft"]).SerializeToString()
    assert built(content).read_bytes() == content


def test_a_good_file_is_served_as_it_is(built):
    content = relu().SerializeToString()
    assert built(content).read_bytes() == content


def test_a_file_is_optimised_ahead_of_time_if_that_is_asked_for(built):
    random = np.random.default_rng(0)
    weights = {
        "w": random.normal(size=(4, 3, 3, 3)).astype(np.float32),
        **{each: random.uniform(0.5, 2, 4).astype(np.float32) for each in ("s", "b", "m", "v")},
        "two": np.float32(2),
        "three": np.float32(3),
    }
    given = model(
        helper.make_node("Mul", ["two", "three"], ["six"]),
        helper.make_node("Conv", ["X", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
        helper.make_node("Identity", ["n"], ["i"]),
        helper.make_node("Mul", ["i", "six"], ["Y"]),
        initializers=[numpy_helper.from_array(np.asarray(each), name) for name, each in weights.items()],
        inputs=("batch", 3, 8, 8),
        outputs=("batch", 4, 6, 6),
    )
    path = built(given.SerializeToString(), options=", optimize=True")
    optimised = onnx.load(path)
    assert [node.op_type for node in optimised.graph.node] == ["Conv", "Mul"]
    assert {each.domain for each in optimised.opset_import} == {""}
    images = random.normal(size=(2, 3, 8, 8)).astype(np.float32)
    before, after = (ReferenceEvaluator(each).run(None, {"X": images})[0] for each in (given, optimised))
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-3)
    again = built(given.SerializeToString(), options=", optimize=True")
    assert again.read_bytes() == path.read_bytes()


def test_what_cannot_be_read_is_not_optimised_but_refused(built):
    with pytest.raises(FleetError, match="not valid ONNX"):
        built(b"not a protobuf", options=", optimize=True")


def export(path: Path, network: torch.nn.Module) -> None:
    path.parent.mkdir(parents=True)
    export_onnx(network, path, inputs={"X": torch.ones(2, 4)}, outputs=["Y"], dynamic={"X": {0: "batch"}})


def test_an_export_is_checked_too(tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "_serialise", lambda _: relu(outputs=("batch", 7)).SerializeToString())
    with pytest.raises(FleetError, match="differ in dimension 1") as caught:
        export(tmp_path / "net" / "1" / "model.onnx", torch.nn.ReLU())
    assert caught.value.problems[0].where == "the export of net/1/model.onnx"


def test_weights_that_no_onnx_file_can_hold_are_refused_before_the_export(tmp_path):
    with torch.device("meta"):
        network = torch.nn.Linear(4, 200_000_000)  # 4 GB, of which nothing is ever made
    path = tmp_path / "net" / "1" / "model.onnx"
    with pytest.raises(FleetError, match=r"4\.0 GB of weights") as caught:
        export(path, network)
    (problem,) = caught.value.problems
    assert (problem.rule, path.exists()) == ("network-too-large", False)
    assert "LibTorch" in problem.fix
