"""ONNX files are checked before they are served: the checker, strict inference, and the size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from small_onnx import network_of

from tests.reported import refused
from triton_models.base.errors import FleetError
from triton_models.builds.build import build
from triton_models.builds.export import onnx as exporting
from triton_models.builds.export.answers import session
from triton_models.builds.export.onnx import export_onnx
from triton_models.builds.inputs import find_inputs
from triton_models.check.check import check_path
from triton_models.check.target import PLAIN
from triton_models.facts.releases import release

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


def bytes_of(node: str, *, answer: str = "batch, 4", opsets: str = '"": 17') -> bytes:
    """Return a file of one operator, whose answer it says to have a shape."""
    graph = f"g (float[batch, 4] X) => (float[{answer}] Y) {{ Y = {node} }}"
    return network_of(graph, opsets=opsets).SerializeToString()


def with_weights(graph: str, weights: Mapping[str, Any]) -> onnx.ModelProto:
    made = network_of(graph)
    for name, each in weights.items():
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(each, np.float32), name))
    return made


def declaration(file: Path, *, options: str = "") -> str:
    return DECLARED.replace("{file}", str(file)).replace("{options}", options)


@pytest.fixture
def build_of(tmp_path, declare, models):
    """Build a model that is an ONNX file somewhere; returns the file as it is served."""

    def make(file: Path, *, options: str = "", batch: int = 8) -> Path:
        text = declaration(file, options=options)
        declare("ready", declaration=text.replace("max_batch_size=8", f"max_batch_size={batch}"))
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
    graph = "g (float[batch, 4096] X) => (float[batch, 4096] Y) { Y = Add(X, W) }"
    network = with_weights(graph, {"W": np.arange(4096)})
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
    "empty": (b"", "not valid ONNX"),
    "an operator that ONNX has not": (bytes_of("Nonsense(X)"), "No Op registered for Nonsense"),
    "a type that the operator does not take": (bytes_of("And(X, X)"), "unsupported type"),
    "another shape than it says": (bytes_of("Relu(X)", answer="batch, 7"), "differ in dimension 1"),
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


def _without_name(network: onnx.ModelProto) -> None:
    network.graph.name = ""


def _of_old_ir(network: onnx.ModelProto) -> None:
    network.ir_version = 3  # in which initializers are inputs too
    network.opset_import[0].version = 9


def _unsorted(network: onnx.ModelProto) -> None:
    network.graph.node.insert(0, network.graph.node.pop())


def _without_shape(network: onnx.ModelProto) -> None:
    network.graph.output[0].type.tensor_type.ClearField("shape")


def _stale(network: onnx.ModelProto) -> None:
    network.graph.value_info.append(onnx.helper.make_tensor_value_info("A", 1, ["batch", 9]))


def _named_domain(network: onnx.ModelProto) -> None:
    network.opset_import[0].domain = "ai.onnx"
    for node in network.graph.node:
        node.domain = "ai.onnx"


ONLY_LOADED = [_without_name, _of_old_ir, _unsorted, _without_shape, _stale, _named_domain]


@pytest.mark.parametrize(
    ("change", "options"),
    [(change, "") for change in ONLY_LOADED] + [(change, ", optimize=True") for change in ONLY_LOADED[:-1]],
)
def test_a_file_that_only_the_checker_refuses_is_served(change, options, built):
    graph = "g (float[batch, 4] X) => (float[batch, 4] Y) { A = Mul(X, W) Y = Relu(A) }"
    network = with_weights(graph, {"W": [1, -2, 3, 4]})
    change(network)
    with pytest.raises((onnx.checker.ValidationError, onnx.shape_inference.InferenceError)):
        onnx.checker.check_model(network, full_check=True)
    rows = {"X": np.array([[1, 2, -3, 4], [-4, 3, 2, 1]], np.float32)}
    expected = session(network).run(None, rows)
    answers = session(str(built(network.SerializeToString(), options=options))).run(None, rows)
    np.testing.assert_allclose(answers[0], expected[0], rtol=1e-6)


TEXT = "g (string[n] X) => (string[n] Y) { Y = StringNormalizer <OPTIONS> (X) }"
LOWER = 'case_change_action = "LOWER", is_case_sensitive = 1'
LOCALES = {
    LOWER: False,
    "is_case_sensitive = 0": False,
    'is_case_sensitive = 1, stopwords = ["a"]': False,
    f'{LOWER}, locale = "de_DE.UTF-8"': False,
    f'{LOWER}, locale = "C.UTF-8"': True,
    'is_case_sensitive = 1, case_change_action = "NONE"': True,
}


@pytest.mark.parametrize("options", LOCALES)
def test_operators_on_text_need_a_locale_that_the_images_have(options, build_of, tmp_path):
    network = network_of(TEXT.replace("OPTIONS", options))
    file = tmp_path / "text.onnx"
    file.write_bytes(network.SerializeToString())
    config = 'name: "text" backend: "onnxruntime" input { name: "X" data_type: TYPE_STRING dims: -1 } '
    config += 'output { name: "Y" data_type: TYPE_STRING dims: -1 }'
    (tmp_path / "text/1").mkdir(parents=True)
    (tmp_path / "text/config.pbtxt").write_text(config)
    (tmp_path / "text/1/model.onnx").write_bytes(file.read_bytes())
    problems = check_path(tmp_path / "text", target=PLAIN)
    if LOCALES[options]:
        assert problems == []
        assert build_of(file, options="", batch=0).exists()
        return
    (problem,) = problems
    assert problem.rule == "onnx-file"
    assert "which Triton's images do not have" in problem.what
    assert "which Triton's images do not have" in refused(build_of, file, batch=0).what
    (node,) = network.graph.node  # the fix
    kept = [attribute for attribute in node.attribute if attribute.name != "locale"]
    del node.attribute[:]
    node.attribute.extend([*kept, onnx.helper.make_attribute("locale", "C.UTF-8")])
    (tmp_path / "text/1/model.onnx").write_bytes(network.SerializeToString())
    assert check_path(tmp_path / "text", target=PLAIN) == []


def test_an_operator_that_cannot_be_initialized_is_refused(build_of, tmp_path):
    options = (
        'mode = "TF", min_gram_length = 2, max_gram_length = 1, max_skip_count = 0, ngram_counts = [0], '
    )
    options += 'ngram_indexes = [0], pool_strings = ["a"]'
    network = network_of(f"g (string[n] X) => (float[1] Y) {{ Y = TfIdfVectorizer <{options}> (X) }}")
    (tmp_path / "text.onnx").write_bytes(network.SerializeToString())
    problem = refused(build_of, tmp_path / "text.onnx", batch=0)
    assert (problem.rule, "Exception during initialization" in problem.what) == ("network-file", True)


FOREIGN = '"": 17, "com.microsoft": 1, "my.own": 1, "trt.plugins": 1'


@pytest.mark.parametrize(
    ("node", "opsets", "said"),
    [
        ("my.own.Scale(X)", FOREIGN, "my.own:Scale(-1) is not a registered function/op"),
        ("com.microsoft.Foo(X)", FOREIGN, "com.microsoft:Foo(-1) is not a registered function/op"),
        ("com.microsoft.Foo(X)", '"": 17', "com.microsoft:Foo(-1) is not a registered function/op"),
        ("trt.plugins.Scale(X)", FOREIGN, "trt.plugins:Scale(-1) is not a registered function/op"),
        ("com.microsoft.Gelu(X)", '"": 17, "com.microsoft": 2', "is till opset 1"),
        ("Relu(X)", '"": 24', "an ONNX file with opset 24"),
        ("ai.onnx.ml.Binarizer(X)", '"": 17, "ai.onnx.ml": 6', "an ONNX file with ai.onnx.ml opset 6"),
    ],
)
def test_a_build_refuses_operators_that_no_image_has_with_the_words_of_the_check(
    node, opsets, said, built, tmp_path
):
    content = bytes_of(node, opsets=opsets)
    problem = refused(built, content)
    assert problem.rule == "network-file"
    assert said in problem.what
    folder = tmp_path / "plain"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.onnx").write_bytes(content)
    (folder / "config.pbtxt").write_text(CONFIG)
    [other] = check_path(folder, target=replace(PLAIN, release=release("25.09")))
    assert other.what == problem.what
    if "my.own" in node:
        assert problem.fix == f"serve its directory, by `fleet adopt`, and {other.fix}"
        (folder / "config.pbtxt").write_text(CONFIG + LIBRARY)
        assert check_path(folder, target=replace(PLAIN, release=release("25.09"))) == []


CONFIG = (
    'name: "plain" backend: "onnxruntime" max_batch_size: 8 '
    'input { name: "X" data_type: TYPE_FP32 dims: 4 } output { name: "Y" data_type: TYPE_FP32 dims: 4 } '
)
LIBRARY = 'model_operations { op_library_filename: "/path/in/the/image.so" } '
ACCELERATED = 'optimization { execution_accelerators { gpu_execution_accelerator { name: "tensorrt" } } } '


@pytest.mark.parametrize(
    ("node", "more", "accepted"),
    [
        ("trt.plugins.Scale(X)", "", True),
        ("trt.plugins.Scale(X)", "instance_group { kind: KIND_CPU } ", False),
        ("my.own.Scale(X)", "", False),
        ("com.microsoft.Foo(X)", "", False),
    ],
)
def test_an_accelerator_excuses_only_the_plugins_that_it_runs(node, more, accepted, tmp_path):
    (tmp_path / "plain" / "1").mkdir(parents=True)
    (tmp_path / "plain" / "1" / "model.onnx").write_bytes(bytes_of(node, opsets=FOREIGN))
    (tmp_path / "plain" / "config.pbtxt").write_text(CONFIG + ACCELERATED + more)
    rules = [problem.rule for problem in check_path(tmp_path / "plain", target=PLAIN)]
    assert ("onnx-file" not in rules) == accepted


@pytest.mark.parametrize("options", ["", ", optimize=True"])
@pytest.mark.parametrize(
    ("node", "opsets"),
    [
        ("com.microsoft.Gelu(X)", '"": 17'),
        ("ai.onnx.ml.Binarizer(X)", '"": 17'),
        ("Relu(X)", '"com.microsoft": 1'),
        ("ai.onnx.Relu(X)", '"": 17'),
    ],
)
def test_a_file_that_imports_no_opset_of_its_operators_is_served_as_onnx_runtime_loads_it(
    node, opsets, options, built
):
    content = bytes_of(node, opsets=opsets)
    with pytest.raises(onnx.checker.ValidationError, match="No opset import"):
        onnx.checker.check_model(content)
    rows = {"X": np.array([[1, 2, -3, 4], [-4, 3, 2, 1]], np.float32)}
    served = session(str(built(content, options=options))).run(None, rows)
    np.testing.assert_allclose(
        served[0], session(onnx.load_from_string(content)).run(None, rows)[0], rtol=1e-6
    )


@pytest.mark.parametrize("node", ["Relu(X)", "com.microsoft.Gelu(X)"])
def test_a_good_file_is_served_as_it_is_also_with_operators_of_onnx_runtimes_own(node, built):
    content = bytes_of(node, opsets='"": 17, "com.microsoft": 1')
    assert built(content).read_bytes() == content


def test_a_file_is_optimised_ahead_of_time_if_that_is_asked_for(built):
    random = np.random.default_rng(0)
    weights = {
        "w": random.normal(size=(4, 3, 3, 3)),
        **{each: random.uniform(0.5, 2, 4) for each in ("s", "b", "m", "v")},
        "two": 2,
        "three": 3,
    }
    graph = """g (float[batch, 3, 8, 8] X) => (float[batch, 4, 6, 6] Y) {
        six = Mul(two, three) c = Conv(X, w) n = BatchNormalization(c, s, b, m, v) i = Identity(n)
        Y = Mul(i, six)
    }"""
    given = with_weights(graph, weights)
    path = built(given.SerializeToString(), options=", optimize=True")
    optimised = onnx.load(path)
    assert [node.op_type for node in optimised.graph.node] == ["Conv", "Mul"]
    assert {each.domain for each in optimised.opset_import} == {""}
    images = random.normal(size=(2, 3, 8, 8)).astype(np.float32)
    before, after = (ReferenceEvaluator(each).run(None, {"X": images})[0] for each in (given, optimised))
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-3)
    again = built(given.SerializeToString(), options=", optimize=True")
    assert again.read_bytes() == path.read_bytes()


def export(path: Path, network: torch.nn.Module) -> None:
    path.parent.mkdir(parents=True)
    export_onnx(network, path, inputs={"X": torch.ones(2, 4)}, outputs=["Y"], dynamic={"X": {0: "batch"}})


@pytest.mark.parametrize(
    ("kept", "constant"), [("Add", 1e-8), ("Sub", 1e-9), ("Mul", 1.000005), ("Div", 0.999995)]
)
def test_an_optimised_file_keeps_constants_that_are_almost_nothing(kept, constant, built):
    values = "float[rows, 4] X) => (float[rows, 4] Y"
    graph = f"g ({values}) <float c = {{{constant}}}> {{ a = {kept}(X, c) Y = Tanh(a) }}"
    path = built(network_of(graph).SerializeToString(), options=", optimize=True")
    assert [node.op_type for node in onnx.load(path).graph.node] == [kept, "Tanh"]


def test_an_export_is_checked_too(tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "serialise", lambda _: bytes_of("Relu(X)", answer="batch, 7"))
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
