from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aws_cdk.assertions import Template
from fleet_app import SETTINGS, FleetApp, findings, fleet_app, new_fleet

from triton_fleet.fleet.given_requests import unfit_requests
from triton_fleet.operations.warm_up import WarmUpRequest
from triton_models.base.checks import Report
from triton_models.base.errors import FleetError, Problem

MINIMAL = """
import numpy as np
from triton_models.spec import Example, ModelDefinition, PyTorchNetwork

BUILD = ModelDefinition(
    name="risk", description="", output="Y",
    examples=lambda: [Example(name="one", inputs={"FEATURES": np.zeros((1, 12), np.float32)})],
    models=[PyTorchNetwork(name="risk", network=list, outputs=["Y"], max_batch_size=8)],
)
"""


def _sent(app: FleetApp) -> dict[str, Any]:
    (rule,) = Template.from_stack(app.inference).find_resources("AWS::Events::Rule").values()
    return dict(json.loads(rule["Properties"]["Targets"][0]["Input"]))


def test_retired_models_are_not_warmed_up() -> None:
    assert _sent(fleet_app(retired_models="bert,t5"))["cold"] == ["bert", "t5"]


def test_a_given_request_replaces_that_of_its_model_alone() -> None:
    sent = _sent(fleet_app(warm_up={"resnet50": {"inputs": [_tensor()]}, "minilm": "off"}))

    assert [each["model"] for each in sent["requests"]] == ["resnet50"]
    assert (sent["published"], sent["cold"]) == (True, ["minilm"])


@pytest.mark.parametrize("given", [{"minilm": "off"}, {"left_by_others": "off"}])
def test_a_model_is_left_out_by_name(given: dict[str, str]) -> None:
    assert _sent(fleet_app(warm_up=given)) == {"requests": [], "published": True, "cold": list(given)}


def test_all_models_but_those_that_are_named_are_left_out_with_a_star() -> None:
    named = fleet_app(warm_up={"resnet50": {"inputs": [_tensor()]}, "*": "off"})

    assert [each["model"] for each in _sent(named)["requests"]] == ["resnet50"]
    assert "published" not in _sent(named)
    assert fleet_app(warm_up={"*": "off"}).inference.fleet.warm_up is None


def test_hot_models_are_warmed_up_even_if_no_others_are() -> None:
    hot = fleet_app(warm_up="off", hot="minilm")
    rules = Template.from_stack(hot.inference).find_resources("AWS::Events::Rule").values()

    assert {rule["Properties"]["Targets"][0]["Input"] for rule in rules} == {
        '{"requests":[],"hot":["minilm"]}',
        '{"everywhere":true,"requests":[],"hot":["minilm"]}',
    }
    assert not findings(hot)


def test_a_hot_model_that_is_almost_one_of_the_fleet_is_refused() -> None:
    with pytest.raises(FleetError, match="did you mean minilm") as error:
        new_fleet(tritonFleet=SETTINGS | {"hot": ["minilmm", "left_by_others"]})

    assert [each.what for each in error.value.problems] == ["'minilmm' is not a model of this fleet"]


def _tensor(**changes: object) -> dict[str, object]:
    sent = {
        "name": "INPUT",
        "shape": [1, 3, 224, 224],
        "datatype": "FP32",
        "data": {"of": 0, "times": 150528},
    }
    return {name: value for name, value in (sent | changes).items() if value is not None}


@pytest.mark.parametrize(
    ("model", "inputs", "what"),
    [
        ("resnet5", [_tensor()], ["'resnet5' is not a model of this fleet"]),
        ("resnet50", None, ["the request has no list of inputs"]),
        (
            "resnet50",
            [_tensor(name="INPUTS")],
            ["there is no input 'INPUTS'", "the input 'INPUT' is missing"],
        ),
        ("resnet50", [_tensor(datatype="FP16")], ["'INPUT' has the datatype 'FP16'"]),
        ("resnet50", [_tensor(data=[0, [1]])], ["'INPUT' has 2 values"]),
        ("resnet50", [_tensor(shape="3")], ["the shape of 'INPUT' is '3'"]),
        ("resnet50", [_tensor(shape=[3, 224, 224])], ["'INPUT' has the shape [3, 224, 224]"]),
        ("resnet50", [_tensor(shape=[1, 224, 3, 224])], ["'INPUT' has the shape [1, 224, 3, 224]"]),
        ("resnet50", [_tensor(shape=[2, 3, 224, 224], data={"of": 0, "times": 301056})], []),
    ],
)
def test_a_given_request_fits_the_declaration(model: str, inputs: object, what: list[str]) -> None:
    problems: tuple[Problem, ...] = ()
    try:
        new_fleet(tritonFleet=SETTINGS | {"warm_up": {model: {"inputs": inputs}}})
    except FleetError as error:
        problems = error.problems

    assert [each.what for each in problems] == what
    assert {each.rule for each in problems} <= {"warm-up-requests"}


def test_a_request_for_a_network_without_declared_inputs_is_compared_with_its_examples(
    tmp_path: Path,
) -> None:
    (tmp_path / "risk").mkdir()
    (tmp_path / "risk" / "build.py").write_text(MINIMAL)
    body = '{"inputs": [{"name": "FEATURE", "shape": [1, 11], "datatype": "FP32", "data": [1, 2]}]}'
    report = Report("warm_up")
    unfit_requests(report, [WarmUpRequest(model="risk", body=body)], cold=(), built=["risk"], models=tmp_path)

    assert [each.what for each in report.problems] == [
        "'FEATURE' has 2 values",
        "there is no input 'FEATURE'",
        "the input 'FEATURES' is missing",
    ]
