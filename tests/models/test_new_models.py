"""`fleet new`: minimal declarations, and those of ONNX files and forests, build and verify as written."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import onnx
import pytest
import torch
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from one_server import tensors_of
from small_onnx import network_of

from tests.reported import refused, reported
from triton_models.artifact.pbtxt import read_config
from triton_models.base.errors import FleetError
from triton_models.builds.build import build
from triton_models.cli.main import main
from triton_models.cli.starter import from_file
from triton_models.cli.starter.from_file import write_onnx as begin_onnx
from triton_models.cli.starter.new import begin
from triton_models.deliver.verify.verify import reference_of
from triton_models.spec import load_build, models_folder

DATA = [[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]] * 20
TARGET = [0, 1] * 20


class Scorer(torch.nn.Module):
    """A network of two inputs of a variable length, with weights that its exporter writes to a side file."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = torch.nn.Embedding(500, 8)
        self.scores = torch.nn.Linear(8, 3)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> Any:
        return self.scores((self.rows(ids) * mask.unsqueeze(-1)).sum(1))


def export_scorer(folder: Path) -> Path:
    """Export the network as PyTorch does by default."""
    sizes = {0: "batch", 1: "tokens"}
    torch.onnx.export(
        Scorer().eval(),
        (torch.ones(2, 7, dtype=torch.int64), torch.ones(2, 7)),
        folder / "fraud.onnx",
        input_names=["ids", "mask"],
        output_names=["scores"],
        dynamic_shapes={"ids": sizes, "mask": sizes},
        verbose=False,
    )
    assert (folder / "fraud.onnx.data").stat().st_size
    return folder / "fraud.onnx"


def write_onnx(path: Path, *, kind: str = "float", shape: str = "rows, 3", output: str = "Y") -> Path:
    made = network_of(f"g ({kind}[{shape}] X) => ({kind}[{shape}] Y) {{ Y = Identity(X) }}")
    made.graph.output[0].name = made.graph.node[0].output[0] = output
    onnx.save(made, path)
    return path


def new(models: Path, name: str, *options: str) -> int:
    return main(["new", name, *options, "--models", str(models)])


def verified(models: Path, name: str, capsys: pytest.CaptureFixture[str]) -> str:
    root = build(name, models=models, output=models / "out")
    assert main(["verify", str(root), "--models", str(models)]) == 0
    return capsys.readouterr().out


def test_a_minimal_declaration_has_at_most_twenty_lines_and_equals_its_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert new(tmp_path, "tiny", "--minimal") == 0
    assert len((tmp_path / "tiny" / "build.py").read_text().splitlines()) <= 20
    assert "tiny: fp32, equal on " in verified(tmp_path, "tiny", capsys)
    tensors = tensors_of(tmp_path / "out" / "tiny" / "tiny")
    assert tensors == [("FEATURES", "TYPE_FP32", [4]), ("SCORES", "TYPE_FP32", [2])]


@pytest.mark.parametrize(
    ("examples", "rule"),
    [
        ("[]", "inputs-unknown"),
        (
            '[Example(name=str(n), inputs={"FEATURES": np.ones((1, n), np.float32)}) for n in (4, 5)]',
            "inputs-unknown",
        ),
        ('[Example(name="text", inputs={"FEATURES": np.full((1, 4), b"x", object)})]', "bad-declaration"),
        ('[Example(name="double", inputs={"FEATURES": np.ones((1, 4))})]', "network-declared"),
    ],
    ids=["none", "of two shapes", "of strings", "of float64"],
)
def test_examples_that_do_not_tell_the_inputs_are_refused(examples: str, rule: str, tmp_path: Path) -> None:
    new(tmp_path, "tiny", "--minimal")
    path = tmp_path / "tiny" / "build.py"
    before, _, after = path.read_text().partition("    return [Example")
    path.write_text(f"{before}    return {examples}\n{after.partition(chr(10))[2]}")
    problem = refused(build, "tiny", models=tmp_path, output=tmp_path / "out")
    assert (problem.rule, "model 'tiny'" in problem.where) == (rule, True)


@pytest.mark.parametrize(
    ("old", "new", "rule", "line"),
    [('outputs=["SCORES"], max', 'outputs=["SCORES", "X"], max', "network-outputs", 'outputs=["SCORES"], m')],
    ids=["exported"],
)
def test_outputs_that_the_network_lacks_are_refused_with_their_line(
    old: str, new: str, rule: str, line: str, tmp_path: Path
) -> None:
    assert main(["new", "tiny", "--minimal", "--models", str(tmp_path)]) == 0
    path = tmp_path / "tiny" / "build.py"
    text = path.read_text()
    path.write_text(text.replace(old, new, 1))
    problem = refused(build, "tiny", models=tmp_path, output=tmp_path / "out")
    assert problem.rule == rule
    assert problem.where.endswith(f"{path}:{text[: text.index(line)].count(chr(10)) + 1}")


@pytest.mark.parametrize(
    ("network", "line", "said"),
    [("if x.sum() > 0: return x", "if x.sum()", "Could not guard on data-dependent expression")],
)
def test_what_cannot_be_exported_is_said_in_one_line_with_its_place(
    network: str, line: str, said: str, tmp_path: Path
) -> None:
    assert main(["new", "tiny", "--minimal", "--models", str(tmp_path)]) == 0
    path = tmp_path / "tiny" / "build.py"
    own = f"    class Own(torch.nn.Module):\n        def forward(self, x):\n            {network}\n"
    text = path.read_text().replace("    return torch.nn.Linear(4, 2)\n", f"{own}    return Own()\n")
    path.write_text(text)
    command = [sys.executable, "-m", "triton_models", "build", "tiny", "--models", tmp_path]
    run = subprocess.run(
        [*command, "--output", tmp_path / "out"], capture_output=True, text=True, check=False
    )
    what, where, *_ = run.stderr.splitlines()
    assert (said in what, what.endswith("[onnx-export]")) == (True, True), run.stderr
    assert where.endswith(f"{path}:{text[: text.index(line)].count(chr(10)) + 1}")


def test_an_onnx_file_with_its_side_file_becomes_a_model_with_its_names_types_and_shapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert new(tmp_path, "fraud", "--onnx", str(export_scorer(tmp_path))) == 0
    said = verified(tmp_path, "fraud", capsys)
    assert re.search(r"fraud: fp32, equal on \d+ drawn rows; answered 1 generated example as its", said)
    assert tensors_of(tmp_path / "out" / "fraud" / "fraud") == [
        ("ids", "TYPE_INT64", [-1]),
        ("mask", "TYPE_FP32", [-1]),
        ("scores", "TYPE_FP32", [3]),
    ]


def classifier(path: Path, *, maps: bool, producer: str = "skl2onnx", labels: str = "int64") -> Path:
    """Write a file as exporters of classifiers do: a label and probabilities, which may become maps."""
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    classes = {"classlabels_ints": [0, 1]} if labels == "int64" else {"classlabels_strings": ["no", "yes"]}
    ml = {"domain": "ai.onnx.ml"}
    weights = {"coefficients": [1.0, -1.0, -1.0, 1.0], "intercepts": [0.0, 0.5], "post_transform": "SOFTMAX"}
    nodes = [node("LinearClassifier", ["X"], ["label", "probabilities"], **ml, **classes, **weights)]
    kind = onnx.TensorProto.INT64 if labels == "int64" else onnx.TensorProto.STRING
    outputs = [value("label", kind, [None])]
    if maps:
        keys = {f"classlabels_{'int64s' if labels == 'int64' else labels}": next(iter(classes.values()))}
        nodes.append(node("ZipMap", ["probabilities"], ["maps"], **ml, **keys))
        types = onnx.helper.make_map_type_proto(
            kind, onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
        )
        sequence = onnx.helper.make_sequence_type_proto(types)
        outputs.append(onnx.helper.make_value_info("maps", sequence))
    else:
        outputs.append(value("probabilities", onnx.TensorProto.FLOAT, [None, 2]))
    graph = onnx.helper.make_graph(nodes, "g", [value("X", onnx.TensorProto.FLOAT, [None, 2])], outputs)
    opsets = [onnx.helper.make_opsetid("", 15), onnx.helper.make_opsetid("ai.onnx.ml", 1)]
    model = onnx.helper.make_model(graph, producer_name=producer, opset_imports=opsets, ir_version=8)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("labels", ["int64", "strings"])
def test_a_classifier_with_one_label_for_each_row_becomes_a_model(
    labels: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = classifier(tmp_path / "net.onnx", maps=False, labels=labels)
    assert new(tmp_path, "net", "--onnx", str(file)) == 0
    verified(tmp_path, "net", capsys)
    config = tmp_path / "out" / "net" / "net" / "config.pbtxt"
    label, scores = read_config(config).output
    assert (list(label.dims), label.HasField("reshape"), list(label.reshape.shape)) == ([1], True, [])
    assert (list(scores.dims), scores.HasField("reshape")) == ([2], False)


def test_the_scalar_of_a_network_without_batches_becomes_an_input_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "g (float[1, 3] X, float S) => (float[1, 3] Y, float Z) { Y = Mul(X, S) Z = Neg(S) }"
    onnx.save(network_of(text), tmp_path / "net.onnx")
    assert new(tmp_path, "net", "--onnx", str(tmp_path / "net.onnx")) == 0
    verified(tmp_path, "net", capsys)
    assert [dims for _, _, dims in tensors_of(tmp_path / "out" / "net" / "net")] == [[1, 3], [1], [1, 3], [1]]


def test_outputs_get_the_sizes_that_onnx_runtime_infers_and_build_json_keeps_them(tmp_path: Path) -> None:
    graph = network_of("g (float[batch, 8] X) => (float[batch, classes] Y) { Y = MatMul(X, W) }")
    weights = onnx.numpy_helper.from_array(np.ones((8, 16), np.float32), "W")
    graph.graph.initializer.append(weights)
    onnx.save(graph, tmp_path / "net.onnx")
    assert new(tmp_path, "net", "--onnx", str(tmp_path / "net.onnx")) == 0
    root = build("net", models=tmp_path, output=tmp_path / "out")
    assert tensors_of(root / "net") == [("X", "TYPE_FP32", [8]), ("Y", "TYPE_FP32", [16])]
    assert json.loads((root / "build.json").read_bytes())["onnx_outputs"] == {"net": {"Y": [-1, 16]}}
    assert main(["check", str(root)]) == 0


def test_maps_are_refused_with_the_option_of_their_exporter_or_code_that_cuts_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for producer, option in (("skl2onnx", '{"zipmap": False}'), ("OnnxMLTools", "zipmap=False")):
        file = classifier(tmp_path / "net.onnx", maps=True, producer=producer)
        assert option in refusal(tmp_path, capsys, "--onnx", str(file))
    file = classifier(tmp_path / "net.onnx", maps=True, producer="CatBoost")
    error = refusal(tmp_path, capsys, "--onnx", str(file))
    monkeypatch.chdir(tmp_path)
    code = error.partition("python -c '")[2].partition("'\n")[0]
    subprocess.run([sys.executable, "-c", code], check=True)
    assert new(tmp_path, "net", "--onnx", str(tmp_path / "tensors.onnx")) == 0


@pytest.mark.parametrize(
    ("kind", "shape", "expected"),
    [
        ("float", "3", (0, "TYPE_FP32", [3])),
        ("string", "rows, words", (8, "TYPE_STRING", [-1])),
        ("bool", "1, 4", (0, "TYPE_BOOL", [1, 4])),
    ],
)
def test_an_onnx_file_of_any_type_is_verified_as_it_is_written(
    kind: str, shape: str, expected: tuple[Any, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_onnx(tmp_path / "net.onnx", kind=kind, shape=shape)
    assert new(tmp_path, "net", "--onnx", str(file)) == 0
    assert "largest difference 0.0e+00" in verified(tmp_path, "net", capsys)
    batch, *tensor = expected
    assert load_build("net", tmp_path).models[0].max_batch_size == batch  # type: ignore[union-attr]
    assert tensors_of(tmp_path / "out" / "net" / "net")[0] == ("X", *tensor)


FRAGMENTS = st.sampled_from(
    ['"', "'", '"""', "\\", "\n", "\r", "\0", "\x1b", "\u2028", "{", "}", "{name}", "#", ")"]
)
NAMES = st.lists(FRAGMENTS | st.text(max_size=4), max_size=6).map("".join)


@given(NAMES)
@settings(max_examples=25, deadline=None)
def test_the_name_of_an_output_is_data_or_refused(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "net.onnx")
        try:
            write_onnx(path, output=name)
        except UnicodeEncodeError:
            return
        try:
            begin("net", lambda made: begin_onnx(path, made), models=Path(folder))
        except FleetError as error:
            rules = {problem.rule for problem in error.problems}
            assert rules & {"unprintable-name", "bad-declaration", "network-file"}
        else:
            assert load_build("net", Path(folder)).output == name


@pytest.fixture
def files(tmp_path: Path) -> dict[str, list[str]]:
    """The options of each way to begin a model, with the files that they name."""
    of_xgboost().save_model(tmp_path / "churn.ubj")
    network = write_onnx(tmp_path / "net.onnx")
    return {
        "like": ["--like", "resnet50"],
        "minimal": ["--minimal"],
        "onnx": ["--onnx", str(network)],
        "forest": ["--forest", str(tmp_path / "churn.ubj")],
    }


@pytest.mark.parametrize("way", ["like", "minimal", "onnx", "forest"])
def test_a_cdk_json_that_cannot_be_read_leaves_nothing(
    way: str, files: dict[str, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = tmp_path / "model_builds" / "models"
    shutil.copytree(models_folder() / "resnet50", models / "resnet50")
    (tmp_path / "cdk.json").write_text("{")

    assert "[cdk-json]" in refusal(models, capsys, *files[way])
    (tmp_path / "cdk.json").unlink()
    assert new(models, "net", *files[way]) == 0


@pytest.mark.parametrize(
    ("option", "name"),
    [*(("--onnx", name) for name in ('a"b', "a'b", "a\nb", "a\\b", "a\x1b[0m")), ("--forest", 'a"b')],
)
def test_a_file_with_a_name_that_is_no_name_in_code_is_refused(
    option: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if option == "--onnx":
        write_onnx(tmp_path / name)
    else:
        (tmp_path / name).write_bytes(of_xgboost().save_raw("json"))
    assert "[unprintable-name]" in refusal(tmp_path, capsys, option, str(tmp_path / name))


@pytest.mark.parametrize("name", ["build.py"])
def test_a_side_file_that_a_build_would_use_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = export_scorer(tmp_path)
    monkeypatch.chdir(tmp_path)  # onnx refuses names that exist there
    onnx.save_model(onnx.load(str(file)), file, save_as_external_data=True, location=name)
    assert "[reserved-name]" in refusal(tmp_path, capsys, "--onnx", str(file))


def test_a_side_file_that_is_a_link_out_of_its_folder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    side = export_scorer(tmp_path / "in").with_name("fraud.onnx.data")
    side.rename(tmp_path / "elsewhere")
    side.symlink_to(tmp_path / "elsewhere")
    assert "[side-file-link]" in refusal(tmp_path, capsys, "--onnx", str(tmp_path / "in" / "fraud.onnx"))


def write_endless_loop(path: Path) -> Path:
    """Write a network that adds to its input 2**62 times."""
    turn = "body (int64 turn, bool go, float[rows, 3] sum) => (bool on, float[rows, 3] more)"
    graph = f"""g (float[rows, 3] X) => (float[rows, 3] Y) <int64 turns = {{{2**62}}}, bool begin = {{1}}> {{
        Y = Loop<body = {turn} {{ on = Identity(go) more = Add(sum, sum) }}>(turns, begin, X)
    }}"""
    onnx.save(network_of(graph), path)
    return path


def test_a_network_that_never_answers_is_declared_without_a_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_file, "_EVALUATE_S", 5.0)
    assert new(tmp_path, "net", "--onnx", str(write_endless_loop(tmp_path / "net.onnx"))) == 0
    assert load_build("net", tmp_path).reference is None


def test_a_new_model_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    file, models = write_endless_loop(tmp_path / "net.onnx"), tmp_path / "models"
    models.mkdir()
    fleet = [sys.executable, "-m", "triton_models", "new", "net", "--onnx", file, "--models", models]
    with subprocess.Popen(fleet, stderr=subprocess.PIPE) as process:
        until(lambda: list(models.glob("*/net/net.onnx")))
        process.terminate()
        process.wait(timeout=30)
    assert (process.returncode != 0, list(models.iterdir())) == (True, [])


def until(condition: Callable[[], object]) -> None:
    deadline, moment = time.monotonic() + 60, threading.Event()
    while not condition():
        assert time.monotonic() < deadline
        moment.wait(0.05)


def of_xgboost() -> xgboost.Booster:
    return xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(np.array(DATA), TARGET), 2)


def of_lightgbm() -> lightgbm.Booster:
    options = {"objective": "regression", "verbose": -1, "min_data_in_leaf": 1}
    return lightgbm.train(options, lightgbm.Dataset(np.array(DATA), TARGET), 2)


def of_softmax() -> xgboost.Booster:
    """A forest whose own predict() answers with classes."""
    options = {"objective": "multi:softmax", "num_class": 3}
    return xgboost.train(options, xgboost.DMatrix(np.array(DATA), np.arange(len(DATA)) % 3), 2)


@pytest.mark.parametrize(
    ("train", "file", "package"),
    [
        (of_xgboost, "churn.ubj", "xgboost-cpu"),
        (of_softmax, "churn.json", "xgboost-cpu"),
        (of_lightgbm, "churn.txt", "lightgbm"),
    ],
)
def test_a_forest_becomes_a_model(
    train: Callable[[], Any], file: str, package: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train().save_model(tmp_path / file)
    assert new(tmp_path, "churn", "--forest", str(tmp_path / file)) == 0
    assert (tmp_path / "churn" / "requirements.txt").read_text() == f"{package}\n"
    said = verified(tmp_path, "churn", capsys)
    assert re.search(r"churn: fp32, equal on \d+ drawn rows; answered 1 generated example as its", said)


def test_a_forest_that_was_stopped_early_is_begun_and_asks_which_iterations_answer(tmp_path: Path) -> None:
    booster = of_xgboost()
    booster.set_attr(best_iteration="0")
    booster.save_model(tmp_path / "churn.ubj")
    assert new(tmp_path, "churn", "--forest", str(tmp_path / "churn.ubj")) == 0
    with reported("forest-iterations"):
        build("churn", models=tmp_path, output=tmp_path / "out")
    file = tmp_path / "churn" / "build.py"
    text = file.read_text()
    assert "# The forest has 2 iterations, of which 1 are its best." in text
    file.write_text(text.replace("ITERATIONS = None", 'ITERATIONS = "best"'))
    assert build("churn", models=tmp_path, output=tmp_path / "out")


def test_the_codes_of_categories_are_written_into_the_declaration(tmp_path: Path) -> None:
    rows = np.stack([np.arange(100.0) % 7, np.arange(100) % 4], axis=1)
    options = {"objective": "binary", "verbose": -1, "min_data_in_leaf": 1, "min_data_per_group": 1}
    data = lightgbm.Dataset(rows, rows[:, 1] % 2, feature_name=["size", "color"], categorical_feature=[1])
    text = lightgbm.train(options, data, 2).model_to_string()
    names = json.dumps([['a "b"\n', "blue", "green", "red"]])
    (tmp_path / "c.txt").write_text(text.replace("pandas_categorical:null", f"pandas_categorical:{names}"))
    assert new(tmp_path, "churn", "--forest", str(tmp_path / "c.txt")) == 0
    text = (tmp_path / "churn" / "build.py").read_text()
    assert r'''#   "color": 0: "a \"b\"\n", 1: "blue", 2: "green", 3: "red"''' in text
    assert load_build("churn", tmp_path).models


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"zero_as_missing": True}, "zero_as_missing"),
        ({"linear_tree": True, "objective": "regression"}, "linear_tree"),
    ],
)
def test_a_forest_that_the_backend_would_answer_otherwise_is_not_begun(
    options: dict[str, object], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(0)
    rows = np.where(random.random((200, 3)) < 0.4, 0, random.normal(size=(200, 3)))
    usual = {"objective": "binary", "verbose": -1, "num_threads": 1}
    trained = lightgbm.train({**usual, **options}, lightgbm.Dataset(rows, (rows[:, 0] > 0.2) * 1), 3)
    trained.save_model(tmp_path / "net.txt")
    said_of = refusal(tmp_path, capsys, "--forest", str(tmp_path / "net.txt"))
    assert "[forest-kind]" in said_of
    assert said in said_of


def refusal(models: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """Return the error of a declaration that is not begun, and check that nothing is left of it."""
    assert new(models, "net", *options) == 1
    assert not (models / "net").exists()
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "content", "rule"),
    [
        ("--onnx", b"<html>404</html>", "network-file"),
        ("--onnx", None, "network-file"),
        ("--forest", b"<html>404</html>", "forest-file"),
    ],
)
def test_a_file_of_something_else_is_refused_and_leaves_nothing(
    option: str, content: bytes | None, rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    if content is not None:
        file.write_bytes(content)
    assert f"[{rule}]" in refusal(tmp_path, capsys, option, str(file))


@pytest.mark.parametrize(
    ("place", "missing", "command"),
    [
        ("models", False, None),
        ("models", True, ".venv/bin/pip install -r models/churn/requirements.txt"),
        ("other/src/models", True, "pip install -r other/src/models/churn/requirements.txt"),
    ],
)
def test_a_forest_says_what_to_install_only_if_it_is_missing(  # noqa: PLR0917  fixtures
    place: str,
    missing: bool,
    command: str | None,
    files: dict[str, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for folder in (tmp_path / place, tmp_path / ".venv" / "bin"):
        folder.mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "pip").touch()
    monkeypatch.chdir(tmp_path)
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if missing and name == "xgboost" else find_spec(name)
    )

    assert new(Path(place), "churn", *files["forest"], "--json") == 0
    assert json.loads(capsys.readouterr().out)["install"] == command


def test_a_forest_whose_framework_is_missing_names_its_requirements(
    files: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert new(tmp_path, "churn", *files["forest"]) == 0
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "xgboost", None)
    declaration = load_build("churn", tmp_path)

    found = reference_of(declaration, declaration.examples()[0])

    assert isinstance(found, tuple)
    assert [(each.rule, each.fix) for each in found] == [
        ("build-requires", "pip install -r churn/requirements.txt")
    ]
