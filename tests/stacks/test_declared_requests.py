"""Models are warmed up with requests that are derived from their declarations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aws_cdk.assertions import Annotations, Match, Template
from fleet_app import SETTINGS, fleet_app, new_fleet

from stacks.models import SOURCE
from triton_fleet.fleet.declared_requests import MOST_MODELS, declared_requests, unfit_requests
from triton_fleet.fleet.multi_model_fleet import WARM_UP_LEFT_OUT
from triton_fleet.operations.checks import LONGEST_INPUT
from triton_fleet.operations.warm_up import WarmUpRequest, passed_on
from triton_models.base.errors import FleetError, Problem

MODEL = """
from triton_models.spec import ModelDefinition, PythonModel, Tensor

BUILD = ModelDefinition(
    name=NAME, description="", examples=list, output="Y",
    models=[PythonModel(
        name=NAME, code="build.py", inputs=[Tensor("X", TYPE, SHAPE)], outputs=[Tensor("Y", "FP32", [1])],
        max_batch_size=0,
    )],
)
"""

MINIMAL = """
import numpy as np
from triton_models.spec import Example, ModelDefinition, PyTorchNetwork

BUILD = ModelDefinition(
    name="risk", description="", output="Y",
    examples=lambda: [Example(name="one", inputs={"FEATURES": np.zeros((1, 12), np.float32)})],
    models=[PyTorchNetwork(name="risk", network=list, outputs=["Y"], max_batch_size=8)],
)
"""


def declare(folder: Path, name: str, data_type: str = "FP32", shape: str = "[1]") -> str:
    (folder / name).mkdir()
    text = MODEL.replace("NAME", repr(name)).replace("TYPE", repr(data_type)).replace("SHAPE", shape)
    (folder / name / "build.py").write_text(text)
    return name


def test_the_default_fleet_sends_each_model_the_smallest_request() -> None:
    inference = fleet_app().inference
    (rule,) = Template.from_stack(inference).find_resources("AWS::Events::Rule").values()
    sent = json.loads(rule["Properties"]["Targets"][0]["Input"])["requests"]

    assert {each["model"]: json.loads(each["body"])["inputs"] for each in sent} == {
        "minilm": [
            {"name": "TEXT", "shape": [1, 1], "datatype": "BYTES", "data": {"of": "text", "times": 1}}
        ],
        "resnet50": [
            {
                "name": "INPUT",
                "shape": [1, 3, 224, 224],
                "datatype": "FP32",
                "data": {"of": 0, "times": 150528},
            }
        ],
    }
    Annotations.from_stack(inference).has_no_warning("*", Match.string_like_regexp(WARM_UP_LEFT_OUT))


def test_what_a_dali_pipeline_decodes_cannot_be_derived_and_is_reported() -> None:
    inference = fleet_app(models="dali_inception,t5_translation,resnet50:torchscript").inference

    warm_up = inference.fleet.warm_up
    assert warm_up is not None
    assert [each.model for each in warm_up.requests] == ["t5_translation", "resnet50_torchscript"]
    Annotations.from_stack(inference).has_warning(
        "*", Match.string_like_regexp(r"dali_inception \(no request can be derived")
    )


def test_a_given_request_replaces_that_of_its_model_alone() -> None:
    given = {"resnet50": {"inputs": [_tensor(data={"of": 1, "times": 150528})]}}
    warm_up = fleet_app(warm_up=given).inference.fleet.warm_up

    assert warm_up is not None
    assert {each.model: '"of":1' in each.body.replace(" ", "") for each in warm_up.requests} == {
        "resnet50": True,
        "minilm": False,
    }


@pytest.mark.parametrize(
    ("given", "warmed"), [({"minilm": "off"}, ["resnet50"]), ({"minilm": "off", "resnet50": "off"}, None)]
)
def test_a_model_is_left_out_by_name(given: dict[str, str], warmed: list[str] | None) -> None:
    warm_up = fleet_app(warm_up=given).inference.fleet.warm_up

    assert (warm_up and [each.model for each in warm_up.requests]) == warmed


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


def test_a_misspelt_model_is_named_with_the_close_one() -> None:
    with pytest.raises(FleetError) as raised:
        new_fleet(tritonFleet=SETTINGS | {"warm_up": {"minilmm": "off"}})

    assert raised.value.problems[0].fix == "did you mean minilm?"


def test_a_request_for_a_network_without_declared_inputs_is_compared_with_its_examples(
    tmp_path: Path,
) -> None:
    (tmp_path / "risk").mkdir()
    (tmp_path / "risk" / "build.py").write_text(MINIMAL)
    body = '{"inputs": [{"name": "FEATURE", "shape": [1, 11], "datatype": "FP32", "data": [1, 2]}]}'
    found = unfit_requests(
        [WarmUpRequest(model="risk", body=body)], cold=(), built=["risk"], models=tmp_path, where="warm_up"
    )

    assert [(each.what, each.expected) for each in found] == [
        ("'FEATURE' has 2 values", "11, for the shape [1, 11]"),
        ("there is no input 'FEATURE'", "did you mean FEATURES?"),
        ("the input 'FEATURES' is missing", "all of FEATURES"),
    ]


@pytest.mark.parametrize(
    ("data_type", "shape", "tensor"),
    [
        ("INT64", "[-1, 2]", {"shape": [1, 2], "datatype": "INT64", "data": {"of": 0, "times": 2}}),
        ("BOOL", "[3]", {"shape": [3], "datatype": "BOOL", "data": {"of": False, "times": 3}}),
        ("FP16", "[3]", None),
        ("FP32", "[3, 1024, 1024]", None),
    ],
)
def test_a_request_is_valid_for_its_model(
    data_type: str, shape: str, tensor: dict[str, object] | None, tmp_path: Path
) -> None:
    found = declared_requests([declare(tmp_path, "m", data_type, shape)], tmp_path)
    sent = [json.loads(each.body)["inputs"] for each in found.requests]

    assert sent == ([[{"name": "X", **tensor}]] if tensor is not None else [])
    assert found.underivable == ([] if tensor is not None else ["m"])


def test_of_thousands_of_models_those_that_fit_are_warmed_up(tmp_path: Path) -> None:
    built = [declare(tmp_path, f"m{number:03}") for number in range(60)]
    found = declared_requests([*built, *(f"unread{number}" for number in range(5000))], tmp_path)

    assert 20 <= len(found.requests) <= MOST_MODELS
    assert len(passed_on(found.requests)) <= LONGEST_INPUT
    assert len(found.requests) + len(found.too_many) == 5060
    assert "more" in found.advice


def test_a_declaration_with_a_mistake_is_left_to_those_who_report_it() -> None:
    assert declared_requests(["unheard"], SOURCE / "models").advice == ""
