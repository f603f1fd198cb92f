"""Models with sequences: the configuration, examples of several requests, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recipes import block_with
from small_onnx import network_of

from tests.reported import reported
from triton_models.artifact.pbtxt import plain, read_config, to_text
from triton_models.builds.build import build
from triton_models.cli.main import main
from triton_models.declare.mistakes import find_mistakes
from triton_models.deliver.verify.comparing import answered
from triton_models.spec import (
    Control,
    Example,
    OnnxFile,
    PythonModel,
    PyTorchNetwork,
    SequenceBatching,
    Tensor,
    WarmUp,
)

RECIPE, CODE = block_with("SequenceBatching"), block_with("self.totals")
OF_ONNX = """max_batch_size=4, batching=SequenceBatching(
    controls=[Control(name="START", says="start", data_type="FP32")], strategy="oldest", max_sequences=4,
)"""
FIRST_PART = """tolerance=0,
    examples=lambda: [Example(name="parts", inputs={"X": np.ones((3, 1, 3), np.float32)}, sequence=True)],
    reference=lambda inputs: {"Y": inputs["X"] * np.array([1, 0, 0]).reshape(3, 1, 1)}"""
START = Control(name="START", says="start")
SEQUENCES = SequenceBatching(controls=[START])
PARTS = np.arange(6, dtype=np.float32).reshape(3, 1, 2)


@pytest.fixture
def totals(models: Path) -> Path:
    folder = models / "totals"
    folder.mkdir()
    (folder / "build.py").write_text(RECIPE)
    (folder / "totals.py").write_text(CODE)
    return folder


def verified(folder: Path, output: Path) -> int:
    root = build(folder.name, models=folder.parent, output=output)
    return main(["verify", str(root), "--models", str(folder.parent)])


def test_the_recipe_is_built_and_verified_request_by_request(totals: Path, tmp_path: Path) -> None:
    assert verified(totals, tmp_path / "out") == 0


@pytest.mark.parametrize(
    ("part", "other"), [("before + part", "part"), ("if start.any()", "if True")], ids=["part", "first"]
)
def test_a_model_that_forgets_differs_from_its_source(
    part: str, other: str, totals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = totals / "totals.py"
    code.write_text(code.read_text().replace(part, other))
    assert verified(totals, tmp_path / "out") == 1
    printed = "".join(capsys.readouterr())
    assert "example '5 parts'" in printed
    assert "example '1 parts'" not in printed


def test_requests_of_a_warm_up_have_no_controls() -> None:
    model = OnnxFile(name="net", max_batch_size=4, batching=SEQUENCES, warm_up=WarmUp())
    ((_, mistake),) = find_mistakes(model)
    assert mistake.field == "warm_up"


def test_every_option_is_written() -> None:
    batching = SequenceBatching(
        controls=[
            START,
            Control(name="END", says="end", data_type="FP32"),
            Control(name="READY", says="ready", data_type="BOOL"),
            Control(name="ID", says="id", data_type="INT64"),
        ],
        strategy="oldest",
        max_sequences=8,
        max_idle_us=5_000_000,
        max_delay_us=100,
    )
    config = plain(name="m", backend="python", max_batch_size=4, inputs=[], outputs=[], batching=batching)
    written = re.sub(r"\s+", " ", to_text(config)).partition("sequence_batching ")[2]
    for part in (
        "max_sequence_idle_microseconds: 5000000",
        "oldest { max_candidate_sequences: 8 max_queue_delay_microseconds: 100 }",
        '"START" control { int32_false_true: 0 int32_false_true: 1 }',
        '"END" control { kind: CONTROL_SEQUENCE_END fp32_false_true: 0.0 fp32_false_true: 1.0 }',
        '"READY" control { kind: CONTROL_SEQUENCE_READY bool_false_true: false bool_false_true: true }',
        '"ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_INT64 }',
    ):
        assert part in written


def test_the_controls_of_an_onnx_network_are_not_inputs_of_requests(
    declare_onnx: Callable[..., Path], tmp_path: Path
) -> None:
    graph = "g (float[rows, 3] X, float[rows, 1] START) => (float[rows, 3] Y) { Y = Mul(X, START) }"
    models = declare_onnx(network_of(graph), OF_ONNX, FIRST_PART)
    assert verified(models / "net", tmp_path / "out") == 0
    config = read_config(tmp_path / "out" / "net" / "net" / "config.pbtxt")
    assert [each.name for each in config.input] == ["X"]


def test_an_answer_to_a_sequence_has_those_of_its_requests() -> None:
    asked: list[Any] = []

    def ask(inputs: Any, parameters: Any) -> Any:
        asked.append(parameters)
        return {"Y": inputs["X"] + 1}

    answer = answered(Example(name="parts", inputs={"X": PARTS}, sequence=True), ask)
    assert answer["Y"].tolist() == (PARTS + 1).tolist()
    ends = [(each["sequence_start"], each["sequence_end"]) for each in asked]
    assert ends == [(True, False), (False, False), (False, True)]
    assert len({each["sequence_id"] for each in asked}) == 1


@pytest.mark.parametrize(
    ("inputs", "answer"),
    [
        ({"X": PARTS, "Z": PARTS[:2]}, lambda x: x),
        ({"X": PARTS[:0]}, lambda x: x),
        ({}, lambda x: x),
        ({"X": PARTS}, lambda x: np.ones(int(x.max()))),
    ],
    ids=["inputs", "no-requests", "no-inputs", "answers"],
)
def test_requests_and_answers_of_a_sequence_are_alike(inputs: Any, answer: Callable[[Any], Any]) -> None:
    with reported("sequence-example"):
        answered(Example(name="p", inputs=inputs, sequence=True), lambda x, _: {"Y": answer(x["X"])})


@pytest.mark.parametrize(
    ("batching", "field"),
    [
        (SequenceBatching(controls=[START, replace(START, says="end")]), "controls"),
        (SequenceBatching(controls=[START, replace(START, name="FIRST")]), "controls"),
        (SequenceBatching(controls=[replace(START, data_type="INT64")]), "data_type"),
        (SequenceBatching(controls=[Control(name="ID", says="id", data_type="FP32")]), "data_type"),
        (SequenceBatching(strategy="oldest"), "max_sequences"),
        (SequenceBatching(max_sequences=4), "max_sequences"),
        (SequenceBatching(max_idle_us=0), "max_idle_us"),
    ],
)
def test_what_the_server_cannot_do_is_a_mistake(batching: SequenceBatching, field: str) -> None:
    ((_, mistake),) = find_mistakes(OnnxFile(name="net", max_batch_size=4, batching=batching))
    assert mistake.field == field


OF_A_MODEL: dict[str, Any] = {"name": "net", "max_batch_size": 4, "batching": SEQUENCES}
START_OF_PYTHON = {"inputs": [Tensor("START", "INT32", [1])], "outputs": [Tensor("Y", "FP32", [1])]}


@pytest.mark.parametrize(
    "model",
    [
        *(
            PyTorchNetwork(**OF_A_MODEL, network=lambda: None, inputs=[given], outputs=["Y"])
            for given in (Tensor("X", "INT32", [1]), Tensor("START", "FP32", [1]))
        ),
        PythonModel(**OF_A_MODEL, code="m.py", **START_OF_PYTHON),
    ],
)
def test_a_control_is_an_input_of_a_network_and_none_of_a_python_model(model: Any) -> None:
    ((_, mistake),) = find_mistakes(model)
    assert mistake.field == "inputs"
