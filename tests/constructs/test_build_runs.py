"""Runs of many builds: the state machine, its steps, and what each of them may do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Duration, Stack
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Template
from botocore_model import refused, resolved
from cfnlint.api import ManualArgs, lint
from declared import Build

from tests.reported import reported
from triton_fleet import BuildRuns, ModelBuildProject, ModelRepository, ReservedMachines
from triton_fleet.builds.commands import changed_commands, summary_commands
from triton_models.facts.instances import GPUS

Runs = Callable[..., BuildRuns]


@pytest.fixture
def builds(build: Build) -> ModelBuildProject:
    return build(models=None)


@pytest.fixture
def runs(stack: Stack, builds: ModelBuildProject) -> Runs:
    return lambda **arguments: BuildRuns(stack, "Runs", **({"builds": builds} | arguments))


def _template(stack: Stack) -> dict[str, Any]:
    found: dict[str, Any] = Template.from_stack(stack).to_json()
    return found


def _definition(stack: Stack) -> dict[str, Any]:
    """The state machine as ScalingStep Functions reads it."""
    template = _template(stack)
    (machine,) = (
        each for each in template["Resources"].values() if each["Type"] == "AWS::StepFunctions::StateMachine"
    )
    found: dict[str, Any] = json.loads(resolved(machine["Properties"]["DefinitionString"], template))
    return found


def _states(stack: Stack) -> dict[str, Any]:
    """Every state by its name, those inside the map as well."""
    states = _definition(stack)["States"]
    return states | states["BuildChanged"]["ItemProcessor"]["States"]


def _policy(stack: Stack, name: str) -> dict[str, Any]:
    ((_, policy),) = (
        (logical, each)
        for logical, each in _template(stack)["Resources"].items()
        if each["Type"] == "AWS::IAM::Policy" and name in logical
    )
    return {
        each.get("Sid", "") or str(each["Action"]): each
        for each in policy["Properties"]["PolicyDocument"]["Statement"]
    }


def _value(state: dict[str, Any], variable: str) -> str:
    overrides = state["Parameters"]["EnvironmentVariablesOverride"]
    (found,) = (each for each in overrides if each["Name"] == variable)
    return str(found["Value.$"])


def test_a_run_finds_what_changed_builds_it_and_tells(runs: Runs, stack: Stack) -> None:
    runs()
    definition = _definition(stack)
    order, name = [], definition["StartAt"]
    while name:
        order.append(name)
        name = definition["States"][name].get("Next")

    assert order == ["FindChanged", "BuildChanged", "Summarize"]
    assert definition["TimeoutSeconds"] == 24 * 3600


def test_each_build_is_waited_for(runs: Runs, stack: Stack) -> None:
    runs()
    tasks = [state for state in _states(stack).values() if state["Type"] == "Task"]

    assert len(tasks) == 4
    assert {task["Resource"].partition(":states:")[2] for task in tasks} == {"::codebuild:startBuild.sync"}


def test_what_each_step_writes_the_next_one_reads(runs: Runs, stack: Stack) -> None:
    runs()
    states = _states(stack)
    items = _value(states["FindChanged"], "FLEET_ITEMS")
    reader = states["BuildChanged"]["ItemReader"]["Parameters"]
    results = states["BuildChanged"]["ItemSelector"]["results.$"]

    assert items.endswith("/models-builds/runs/{}/items.json', $$.Execution.Name)")
    assert reader["Key.$"] == "States.Format('models-builds/runs/{}/items.json', $$.Execution.Name)"
    assert _value(states["Summarize"], "FLEET_ITEMS") == items
    assert _value(states["Summarize"], "FLEET_RESULTS") == results.replace(
        "{}.json', $$.Execution.Name, $$.Map.Item.Index)", "', $$.Execution.Name)"
    )
    assert _value(states["Build"], "FLEET_RESULTS") == "$.results"
    assert _value(states["Build"], "FLEET_MODELS") == "$.models"


def test_no_failed_build_stops_another_and_nothing_keeps_the_summary_away(runs: Runs, stack: Stack) -> None:
    runs()
    parallel = _states(stack)["BuildChanged"]

    assert parallel["ItemProcessor"]["ProcessorConfig"] == {
        "Mode": "DISTRIBUTED",
        "ExecutionType": "STANDARD",
    }
    assert parallel["ToleratedFailurePercentage"] == 100
    assert [(each["ErrorEquals"], each["Next"]) for each in parallel["Catch"]] == [
        (["States.ALL"], "Summarize")
    ]
    assert parallel["ResultPath"] is None


def test_only_a_build_that_could_not_be_started_is_tried_again(runs: Runs, stack: Stack) -> None:
    runs()
    for state in _states(stack).values():
        if state["Type"] == "Task":
            (retry,) = state["Retry"]
            assert "CodeBuild.AccountLimitExceededException" in retry["ErrorEquals"]
            assert not {"States.ALL", "States.TaskFailed"} & set(retry["ErrorEquals"])
            assert retry["MaxDelaySeconds"] * retry["MaxAttempts"] >= 4 * 3600


def test_a_build_whose_machine_failed_is_started_once_more(runs: Runs, stack: Stack) -> None:
    runs()
    states = _states(stack)
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


def test_a_run_with_a_failed_model_fails_and_names_the_summary(runs: Runs, stack: Stack) -> None:
    runs()
    states = _states(stack)
    message = states["NameSummary"]["Parameters"]["message.$"]

    assert states["Summarize"]["Catch"][0]["Next"] == "NameSummary"
    assert "/models-builds/runs/{}/summary.json" in message
    assert states["NameSummary"]["Next"] == "ModelsFailed"
    assert states["ModelsFailed"] == {"Type": "Fail", "Error": "ModelsFailed", "CausePath": "$.message"}


def test_a_topic_is_reported_before_the_run_fails_and_the_run_fails_even_if_it_cannot_be(
    runs: Runs, stack: Stack
) -> None:
    topic = sns.Topic(stack, "Topic")
    runs(topic=topic)
    states = _states(stack)

    assert states["NameSummary"]["Next"] == "Notify"
    assert states["Notify"]["Parameters"]["Message.$"] == "$.message"
    assert states["Notify"]["Next"] == states["Notify"]["Catch"][0]["Next"] == "ModelsFailed"
    assert _policy(stack, "RunsRole")["sns:Publish"]["Resource"] == stack.resolve(topic.topic_arn)


def test_a_fleet_has_as_many_builds_as_reserved_machines_and_four_elsewhere(
    stack: Stack, build: Build
) -> None:
    reserved = build(machine=ReservedMachines(base_capacity=7))
    usual = build("Usual")

    assert BuildRuns(stack, "Reserved", builds=reserved).max_concurrency == 7
    with reported("build-runs"):
        BuildRuns(stack, "More", builds=reserved, max_concurrency=8)
    assert BuildRuns(stack, "OnDemand", builds=usual).max_concurrency == 4


def test_finding_what_changed_knows_all_that_a_build_knows(
    runs: Runs, stack: Stack, builds: ModelBuildProject
) -> None:
    runs(models_per_build=25)
    ((_, project),) = (
        (name, each)
        for name, each in _template(stack)["Resources"].items()
        if each["Type"] == "AWS::CodeBuild::Project" and "Changed" in name
    )
    properties = project["Properties"]
    variables = {each["Name"]: each["Value"] for each in properties["Environment"]["EnvironmentVariables"]}
    spec = json.loads(properties["Source"]["BuildSpec"])

    assert variables["FLEET_MODELS_PER_BUILD"] == "25"
    assert variables.items() >= stack.resolve(builds.variables()).items()
    assert spec["phases"]["build"]["commands"] == list(changed_commands(GPUS["A10G"])["build"])
    assert properties["Environment"]["Type"] == "LINUX_CONTAINER"
    assert properties["Environment"]["ComputeType"] == "BUILD_GENERAL1_SMALL"


def test_finding_what_changed_asks_about_the_same_hardware_as_building() -> None:
    (on_cpu,), (on_gpu,) = changed_commands(None)["build"], changed_commands(GPUS["T4"])["build"]

    assert "--cpu" in on_cpu
    assert '--gpu "$FLEET_GPU"' in on_gpu


def test_a_declaration_that_cannot_be_read_is_a_result_of_the_run(runs: Runs, stack: Stack) -> None:
    runs()
    results = _value(_states(stack)["FindChanged"], "FLEET_RESULTS")

    assert results.endswith("/models-builds/runs/{}/results/changed.json', $$.Execution.Name)")
    assert '--results "$FLEET_RESULTS"' in changed_commands(None)["build"][0]
    assert '"$FLEET_SUMMARY"' in summary_commands()["build"][0]


def test_the_state_machine_starts_and_stops_its_three_projects_and_no_other(runs: Runs, stack: Stack) -> None:
    made = runs()
    statement = _policy(stack, "RunsRole")["Builds"]
    projects = (made.builds.project, made.changed_project, made.summary_project)

    assert statement["Resource"] == [stack.resolve(each.project_arn) for each in projects]
    assert statement["Action"] == ["codebuild:StartBuild", "codebuild:StopBuild", "codebuild:BatchGetBuilds"]


def test_the_state_machine_reads_the_items_of_runs_and_no_model(runs: Runs, stack: Stack) -> None:
    runs()
    reads = [
        each["Resource"]["Fn::Join"][1][-1]
        for each in _policy(stack, "RunsRole").values()
        if each["Action"] == "s3:GetObject"
    ]

    assert reads == ["/models-builds/runs/*/items.json"]


def test_a_build_writes_results_and_reads_none(runs: Runs, stack: Stack) -> None:
    runs()
    statement = _policy(stack, "BuildsRole")["Results"]

    assert statement["Action"] == "s3:PutObject"
    assert statement["Resource"]["Fn::Join"][1][-1] == "/models-builds/runs/*"


def test_what_a_run_keeps_is_outside_what_an_endpoint_serves(runs: Runs, repository: ModelRepository) -> None:
    made = runs()

    assert not made.folder.prefix.startswith(repository.prefix)
    assert not made.folder.prefix.startswith("models/")


def test_documents_of_runs_are_forgotten_and_models_are_not(runs: Runs, stack: Stack) -> None:
    runs()
    (bucket,) = (each for each in _template(stack)["Resources"].values() if each["Type"] == "AWS::S3::Bucket")
    expiring = {
        rule.get("Prefix"): rule["ExpirationInDays"]
        for rule in bucket["Properties"]["LifecycleConfiguration"]["Rules"]
        if "ExpirationInDays" in rule
    }

    assert expiring == {"models-builds/runs/": 90}


def test_step_functions_takes_the_state_machine(runs: Runs, stack: Stack) -> None:
    runs(topic=sns.Topic(stack, "Topic"))
    template = _template(stack)
    (machine,) = (
        each["Properties"]
        for each in template["Resources"].values()
        if each["Type"] == "AWS::StepFunctions::StateMachine"
    )
    request = {
        "name": "runs",
        "roleArn": "arn:aws:iam::123456789012:role/runs",
        "definition": resolved(machine["DefinitionString"], template),
    }

    assert refused("stepfunctions", "CreateStateMachine", request) == []
    assert len(request["definition"]) < 1_000_000


def test_cfn_lint_has_nothing_to_say(runs: Runs, stack: Stack) -> None:
    runs(topic=sns.Topic(stack, "Topic"))

    # The CDK lets a state machine depend on its role in words as well.
    config = ManualArgs(regions=["us-east-1"], ignore_checks=["W3005"])
    matches = lint(json.dumps(_template(stack)), config=config)

    assert [f"{match.rule.id} {match.message}" for match in matches] == []


def test_the_same_runs_are_the_same_template(source: Path) -> None:
    def made() -> dict[str, Any]:
        stack = Stack(App(), "Fleet")
        repository = ModelRepository(stack, "Repository")
        BuildRuns(
            stack, "Runs", builds=ModelBuildProject(stack, "Builds", repository=repository, source=source)
        )
        return _template(stack)

    assert made() == made()


@pytest.mark.parametrize(
    ("arguments", "rules"),
    [
        ({"models_per_build": 1001, "max_concurrency": 10_001}, ["number-range", "number-range"]),
        ({"models_per_build": 0, "max_concurrency": 0}, ["number-range", "number-range"]),
        ({"timeout": Duration.seconds(59)}, ["number-range"]),
    ],
)
def test_a_mistake_names_its_rule(runs: Runs, arguments: dict[str, Any], rules: list[str]) -> None:
    with reported(*rules):
        runs(**arguments)
