"""A build job makes forms beside models, and an unknown form is told when the stack is synthesised."""

from __future__ import annotations

from pathlib import Path

import pytest
from aws_cdk import Stack
from synthesised import Resources

from triton_fleet import FleetError, ModelBuildProject, ModelRepository
from triton_fleet.arguments.late import late_problems

SOURCE = Path(__file__).parents[2] / "model_builds"


def test_a_form_is_built_under_the_name_that_a_person_types(
    stack: Stack, repository: ModelRepository, resources: Resources
) -> None:
    models = ["resnet50", "resnet50:torchscript"]
    ModelBuildProject(stack, "Builds", repository=repository, source=SOURCE, models=models)
    (project,) = resources("AWS::CodeBuild::Project")
    variables = {each["Name"]: each["Value"] for each in project["Environment"]["EnvironmentVariables"]}
    assert variables["FLEET_MODELS"] == "resnet50 resnet50:torchscript"


def test_an_unknown_form_is_reported_with_the_close_one(stack: Stack, repository: ModelRepository) -> None:
    models = ["resnet50:torchscipt"]
    ModelBuildProject(stack, "Builds", repository=repository, source=SOURCE, models=models)

    (problem,) = late_problems(stack.node.root)

    assert (problem.rule, problem.fix) == ("unknown-form", "did you mean torchscript?")


def test_a_form_of_an_unknown_model_is_reported_with_the_close_one(
    stack: Stack, repository: ModelRepository
) -> None:
    with pytest.raises(FleetError) as caught:
        ModelBuildProject(
            stack, "Builds", repository=repository, source=SOURCE, models=["resnet5:torchscript"]
        )

    (problem,) = caught.value.problems
    assert (problem.rule, problem.fix) == ("model-build-exists", "did you mean resnet50?")
