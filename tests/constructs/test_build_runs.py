from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from aws_cdk import App, Duration, Stack
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Template
from botocore_model import refused, resolved
from declared import Build, build_in, declare

from tests.reported import reported
from triton_fleet import BuildRuns, ModelRepository, ReservedMachines
from triton_fleet.builds.commands import changed_commands
from triton_models.facts.instances import GPUS


@dataclass(frozen=True)
class Made:
    """Runs of every model with a topic, and their template."""

    runs: BuildRuns
    template: dict[str, Any]

    @property
    def definition(self) -> dict[str, Any]:
        """The state machine as Step Functions reads it."""
        written = self.one("AWS::StepFunctions::StateMachine")["DefinitionString"]
        return dict(json.loads(resolved(written, self.template)))

    @property
    def states(self) -> dict[str, Any]:
        """Every state by its name, those inside the map as well."""
        states = self.definition["States"]
        return dict(states | states["BuildChanged"]["ItemProcessor"]["States"])

    @property
    def builds(self) -> list[dict[str, Any]]:
        """The states that start a build."""
        return [each for each in self.states.values() if "ProjectName" in each.get("Parameters", {})]

    def one(self, kind: str, name: str = "") -> dict[str, Any]:
        """The properties of the only resource of a type with this in its id."""
        resources = self.template["Resources"].items()
        (found,) = (
            each["Properties"] for logical, each in resources if each["Type"] == kind and name in logical
        )
        return dict(found)

    def policy(self, name: str) -> dict[str, Any]:
        statements = self.one("AWS::IAM::Policy", name)["PolicyDocument"]["Statement"]
        return {each.get("Sid", "") or str(each["Action"]): each for each in statements}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    source = declare(tmp_path_factory.mktemp("model_builds"), "minilm", "resnet50")
    stack = Stack(App(), "Fleet")
    builds = build_in(stack, source=source, repository=ModelRepository(stack, "Repository"))(models=None)
    runs = BuildRuns(stack, "Runs", builds=builds, models_per_build=25, topic=sns.Topic(stack, "Topic"))
    return Made(runs, dict(Template.from_stack(stack).to_json()))


def test_no_failed_build_stops_another_and_nothing_keeps_the_summary_away(made: Made) -> None:
    parallel = made.states["BuildChanged"]

    assert parallel["ItemProcessor"]["ProcessorConfig"] == {
        "Mode": "DISTRIBUTED",
        "ExecutionType": "STANDARD",
    }
    assert parallel["ToleratedFailurePercentage"] == 100
    assert [(each["ErrorEquals"], each["Next"]) for each in parallel["Catch"]] == [
        (["States.ALL"], "Summarize")
    ]
    assert parallel["ResultPath"] is None


def test_only_a_build_that_could_not_be_started_is_tried_again(made: Made) -> None:
    for build in made.builds:
        (retry,) = build["Retry"]
        assert "CodeBuild.AccountLimitExceededException" in retry["ErrorEquals"]
        assert not {"States.ALL", "States.TaskFailed"} & set(retry["ErrorEquals"])
        assert retry["MaxDelaySeconds"] * retry["MaxAttempts"] >= 4 * 3600


def test_a_build_whose_machine_failed_is_started_once_more(made: Made) -> None:
    states = made.states
    (choice,) = states["WhyFailed"]["Choices"]

    assert states["Build"]["Catch"][0]["Next"] == "WhyFailed"
    assert choice == {
        "Variable": "$.error.Cause",
        "StringMatches": '*"BuildStatus":"FAULT"*',
        "Next": "BuildAgain",
    }
    assert states["WhyFailed"]["Default"] == "BuildFailed"
    assert "Catch" not in states["BuildAgain"]
    assert states["BuildAgain"]["Parameters"] == states["Build"]["Parameters"]


def test_a_run_with_a_failed_model_names_the_summary_to_the_topic_and_fails(made: Made) -> None:
    states = made.states
    message = states["NameSummary"]["Parameters"]["message.$"]

    assert states["Summarize"]["Catch"][0]["Next"] == "NameSummary"
    assert "/models-builds/runs/{}/summary.json" in message
    assert states["NameSummary"]["Next"] == "Notify"
    assert states["Notify"]["Parameters"]["Message.$"] == "$.message"
    assert states["Notify"]["Next"] == states["Notify"]["Catch"][0]["Next"] == "ModelsFailed"
    assert states["ModelsFailed"] == {"Type": "Fail", "Error": "ModelsFailed", "CausePath": "$.message"}
    assert made.policy("RunsRole")["sns:Publish"]["Resource"]["Ref"].startswith("Topic")


def test_a_fleet_has_as_many_builds_as_reserved_machines_and_four_elsewhere(
    stack: Stack, build: Build
) -> None:
    reserved = build(machine=ReservedMachines(base_capacity=7))
    usual = build("Usual")

    assert BuildRuns(stack, "Reserved", builds=reserved).max_concurrency == 7
    with reported("build-runs"):
        BuildRuns(stack, "More", builds=reserved, max_concurrency=8)
    assert BuildRuns(stack, "OnDemand", builds=usual).max_concurrency == 4


def test_finding_what_changed_knows_all_that_a_build_knows(made: Made) -> None:
    project = made.one("AWS::CodeBuild::Project", "Changed")
    variables = {each["Name"]: each["Value"] for each in project["Environment"]["EnvironmentVariables"]}
    spec = json.loads(project["Source"]["BuildSpec"])
    builds = made.runs.builds

    assert variables["FLEET_MODELS_PER_BUILD"] == "25"
    assert variables.items() >= Stack.of(builds).resolve(builds.variables()).items()
    assert spec["phases"]["build"]["commands"] == list(changed_commands(GPUS["A10G"])["build"])
    assert project["Environment"]["Type"] == "LINUX_CONTAINER"
    assert project["Environment"]["ComputeType"] == "BUILD_GENERAL1_SMALL"


def test_finding_what_changed_asks_about_the_same_hardware_as_building() -> None:
    (on_cpu,), (on_gpu,) = changed_commands(None)["build"], changed_commands(GPUS["T4"])["build"]

    assert "--cpu" in on_cpu
    assert '--gpu "$FLEET_GPU"' in on_gpu


def test_the_state_machine_starts_and_stops_its_three_projects_and_no_other(made: Made) -> None:
    statement, runs = made.policy("RunsRole")["Builds"], made.runs
    projects = (runs.builds.project, runs.changed_project, runs.summary_project)

    assert statement["Resource"] == [Stack.of(runs).resolve(each.project_arn) for each in projects]
    assert statement["Action"] == ["codebuild:StartBuild", "codebuild:StopBuild", "codebuild:BatchGetBuilds"]


def test_step_functions_takes_the_state_machine(made: Made) -> None:
    request = {
        "name": "runs",
        "roleArn": "arn:aws:iam::123456789012:role/runs",
        "definition": json.dumps(made.definition),
    }

    assert refused("stepfunctions", "CreateStateMachine", request) == []
    assert len(request["definition"]) < 1_000_000


@pytest.mark.parametrize(
    ("arguments", "rules"),
    [
        ({"models_per_build": 1001, "max_concurrency": 10_001}, ["number-range", "number-range"]),
        ({"models_per_build": 0, "max_concurrency": 0}, ["number-range", "number-range"]),
        ({"timeout": Duration.seconds(59)}, ["number-range"]),
    ],
)
def test_a_mistake_names_its_rule(
    stack: Stack, build: Build, arguments: dict[str, Any], rules: list[str]
) -> None:
    with reported(*rules):
        BuildRuns(stack, "Runs", builds=build(), **arguments)
