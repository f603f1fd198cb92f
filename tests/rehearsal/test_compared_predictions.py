"""Answers compared with their source: right, wrong or without a source."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from triton_models.client import Client
from triton_models.spec import Example, ModelDefinition
from triton_rehearsal.rehearse.predictions import Prediction, import_frameworks, predict
from triton_rehearsal.rehearse.result import compared


class Answering:
    """A client whose endpoint gives the same answer to every request."""

    def __init__(self, answer: object) -> None:
        self.answer = np.array(answer)

    def infer(self, **_: object) -> dict[str, Any]:
        return {"Y": self.answer}

    def target_model(self, model: str) -> str:
        return f"{model}-0123456789abcdef.tar.gz"


BUILD = ModelDefinition(
    name="made_up",
    description="",
    write=lambda job: None,
    examples=lambda: [Example(name="one", inputs={})],
    reference=lambda inputs: {"Y": np.array([1.0, 2.0])},
    output="Y",
    tolerance=0.1,
)


def prediction(build: ModelDefinition, answer: object) -> Prediction:
    (made,) = predict(build, cast("Client", Answering(answer)))
    return made


@pytest.mark.parametrize(
    ("answer", "passed", "result"),
    [
        ([1.0, 2.0], True, "identical"),
        ([1.0, 2.5], False, "WRONG, 5e-01 > 1e-01"),
        ([1.0, 2.05], True, "equal, 5e-02"),
        ([1.0], False, "WRONG"),
        ([1.0, np.nan], False, "WRONG"),
    ],
)
def test_an_answer_is_compared_with_the_reference(answer, passed, result):
    made = prediction(BUILD, answer)
    assert made.passed is passed
    assert compared(made) == result


def test_without_a_reference_an_answer_is_shown_and_not_called_equal():
    made = prediction(replace(BUILD, reference=None, tolerance=None), [1.0, 2.0])
    assert (made.passed, made.difference, made.reference) == (True, None, "none")
    assert compared(made) == "loads"


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ([1.0, 2.0], "answered, identical"),
        ([1.0, 2.05], "answered, 5e-02"),
        ([1.0, 2.5], "WRONG, 5e-01 > 1e-01"),
    ],
)
def test_a_right_answer_to_an_example_that_a_tool_made_up_is_not_called_equal(answer, result):
    build = replace(BUILD, examples=lambda: [Example(name="ones", inputs={}, generated=True)])
    made = prediction(build, answer)
    assert (made.generated, compared(made)) == (True, result)


def test_a_reference_that_cannot_run_here_is_not_a_failure_of_the_endpoint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "build.py").write_text("def reference(inputs):\n    import no_such_framework\n")
    (tmp_path / "requirements.txt").write_text("no-such-framework\n")
    module: dict[str, Any] = {}
    exec(compile((tmp_path / "build.py").read_text(), tmp_path / "build.py", "exec"), module)  # noqa: S102

    made = prediction(replace(BUILD, reference=module["reference"]), [1.0, 2.0])

    assert (made.passed, made.problems, compared(made)) == (False, (), "FAILED: no reference")
    assert made.output.startswith("[2] 1.0000")
    assert [each.fix for each in made.no_reference] == ["pip install -r requirements.txt"]


def test_texts_are_shown_and_compared():
    build = replace(BUILD, reference=lambda inputs: {"Y": np.array([b"yes"], np.object_)})
    right, wrong = prediction(build, [b"yes"]), prediction(build, [b"no"])
    assert (right.output, right.passed) == ("[1] 'yes'", True)
    assert (wrong.output, wrong.passed) == ("[1] 'no'", False)


def test_an_answer_of_a_gpu_may_differ_as_much_as_the_coarsest_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    build = replace(BUILD, tolerance={"fp32": 0.1, "fp16": 0.5})
    monkeypatch.setattr(ModelDefinition, "precisions", frozenset({"fp32", "fp16"}))
    client = cast("Client", Answering([1.0, 2.4]))

    assert [each.passed for each in predict(build, client)] == [False]
    assert [each.passed for each in predict(build, client, on_gpu=True)] == [True]


@pytest.mark.parametrize("fails", [False, True])
def test_the_frameworks_of_a_reference_are_imported_by_a_thread_whose_failure_is_left_to_predictions(fails):
    called = []

    def reference(inputs):
        called.append(threading.current_thread())
        return 1 / (not fails)

    import_frameworks(replace(BUILD, reference=reference)).join()
    import_frameworks(replace(BUILD, reference=reference, examples=list)).join()
    assert [each is threading.main_thread() for each in called] == [False]
