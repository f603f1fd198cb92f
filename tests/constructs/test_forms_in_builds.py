"""A build job builds forms as well as models, and the synthesis reports an unknown form."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import Stack
from declared import Build
from synthesised import Resources

from tests.reported import reported
from triton_fleet.parts.arguments.late import late_problems

SOURCE = Path(__file__).parents[2] / "model_builds"


def test_a_form_is_built_under_the_name_that_a_person_types(build: Build, resources: Resources) -> None:
    build(source=SOURCE, models=["resnet50", "resnet50:torchscript"])
    (project,) = resources("AWS::CodeBuild::Project")
    variables = {each["Name"]: each["Value"] for each in project["Environment"]["EnvironmentVariables"]}
    assert variables["FLEET_MODELS"] == "resnet50 resnet50:torchscript"


def test_an_unknown_form_is_reported_with_the_close_one(stack: Stack, build: Build) -> None:
    build(source=SOURCE, models=["resnet50:torchscipt"])

    (problem,) = late_problems(stack.node.root)

    assert (problem.rule, problem.fix) == ("unknown-form", "did you mean torchscript?")


def test_a_form_of_an_unknown_model_is_reported_with_the_close_one(build: Build) -> None:
    with reported("model-build-exists") as problems:
        build(source=SOURCE, models=["resnet5:torchscript"])

    assert problems[0].fix == "did you mean resnet50?"
