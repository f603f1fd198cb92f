"""Models are warmed up with requests that are derived from their declarations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aws_cdk.assertions import Annotations, Match, Template
from fleet_app import fleet_app

from stacks.models import SOURCE
from triton_fleet.fleet.declared_requests import MOST_MODELS, declared_requests
from triton_fleet.fleet.multi_model_fleet import WARM_UP_LEFT_OUT
from triton_fleet.operations.checks import LONGEST_INPUT
from triton_fleet.operations.warm_up import passed_on

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
