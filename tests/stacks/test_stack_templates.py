from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk.assertions import Template
from cfnlint.api import ManualArgs, lint
from fleet_app import ROOT, FleetApp, fleet_app
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension
from syrupy.location import PyTestLocation


class _TemplateExtension(JSONSnapshotExtension):
    """One file a template, in tests/snapshots."""

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        return str(ROOT / "tests" / "snapshots" / test_location.basename)


@pytest.fixture(scope="module")
def default() -> FleetApp:
    """The fleet of cdk.json."""
    return fleet_app()


@pytest.fixture(scope="module")
def elsewhere() -> FleetApp:
    """A fleet with everything that the default leaves out, and without a build job."""
    return fleet_app(
        name="search-prod",
        region="eu-south-1",
        instance_type="ml.g4dn.2xlarge",
        release="24.09",
        models="",
        min_capacity="2",
        max_capacity="10",
        latency_p99_ms="250",
        alarm_email="on-call@example.com",
    )


def _normalised(stack: Stack) -> Any:
    """The template, with one word for the content hash of any asset."""
    text = json.dumps(Template.from_stack(stack).to_json(), sort_keys=True)
    return json.loads(re.sub(r"[0-9a-f]{64}", "<asset-hash>", text))


@pytest.mark.parametrize("name", ["models", "inference"])
@pytest.mark.parametrize("fleet", ["default", "elsewhere"])
def test_a_template_is_as_it_was_reviewed(
    fleet: str, name: str, request: pytest.FixtureRequest, snapshot: SnapshotAssertion
) -> None:
    stack = getattr(request.getfixturevalue(fleet), name)

    assert _normalised(stack) == snapshot(extension_class=_TemplateExtension)


@pytest.mark.parametrize("name", ["models", "inference"])
@pytest.mark.parametrize("fleet", ["default", "elsewhere"])
def test_cfn_lint_has_nothing_to_say(fleet: str, name: str, request: pytest.FixtureRequest) -> None:
    template = Template.from_stack(getattr(request.getfixturevalue(fleet), name)).to_json()

    matches = lint(json.dumps(template), config=ManualArgs(regions=["eu-south-1", "us-east-1"]))

    assert [f"{match.rule.id} {match.message}" for match in matches] == []


def test_cfn_lint_is_awake(default: FleetApp) -> None:
    template = Template.from_stack(default.inference).to_json()
    (config,) = (each for each in template["Resources"].values() if each["Type"].endswith("EndpointConfig"))
    config["Properties"]["ProductionVariants"][0]["InitialInstanceCount"] = "several"

    assert lint(json.dumps(template), config=ManualArgs(regions=["us-east-1"]))


def test_outputs_are_what_people_and_commands_look_for(default: FleetApp) -> None:
    def outputs(stack: Stack) -> set[str]:
        found = Template.from_stack(stack).find_outputs("*")
        return {name for name in found if not name.startswith("ExportsOutput")}

    assert outputs(default.models) == {"RepositoryUrl", "BuildProjectName"}
    assert outputs(default.inference) == {"EndpointName", "EndpointAlias", "DashboardName", "MonthlyCost"}


def test_the_endpoint_reads_the_repository_of_the_other_stack(default: FleetApp) -> None:
    (model,) = Template.from_stack(default.inference).find_resources("AWS::SageMaker::Model").values()
    _, bucket, prefix = model["Properties"]["PrimaryContainer"]["ModelDataUrl"]["Fn::Join"][1]

    assert bucket["Fn::ImportValue"].startswith("TritonFleetModels:")
    assert prefix == "/models/"


def test_the_template_of_a_stack_without_region_serves_every_region(default: FleetApp) -> None:
    assert default.models.region.startswith("${Token")
    assert len(Template.from_stack(default.inference).find_mappings("*")["TritonImage2509"]) > 30


def test_a_fleet_elsewhere_is_what_was_asked_for(elsewhere: FleetApp) -> None:
    template = Template.from_stack(elsewhere.inference)

    assert elsewhere.inference.stack_name == "search-prodInference"
    assert elsewhere.models.builds is None
    template.has_resource_properties("AWS::SageMaker::Endpoint", {"EndpointName": "search-prod-g4dn-2xlarge"})
    template.has_resource_properties(
        "AWS::ApplicationAutoScaling::ScalableTarget", {"MinCapacity": 2, "MaxCapacity": 10}
    )
    template.has_resource_properties("AWS::SNS::Subscription", {"Endpoint": "on-call@example.com"})


def _code(*stacks: Stack) -> set[str]:
    """The types of resources that run code while a stack is deployed."""
    types = {
        resource["Type"]
        for stack in stacks
        for resource in Template.from_stack(stack).to_json()["Resources"].values()
    }
    return {each for each in types if each.startswith(("Custom::", "AWS::Lambda::"))}


def test_the_only_code_that_runs_at_deployment_starts_the_build(
    default: FleetApp, elsewhere: FleetApp
) -> None:
    assert _code(default.models) == {"Custom::TritonBuild", "AWS::Lambda::Function"}
    assert _code(default.inference, elsewhere.models, elsewhere.inference) == set()


def test_a_deployment_that_is_to_start_no_build_runs_no_code() -> None:
    assert _code(fleet_app(build_on_deployment="false").models) == set()


def test_several_builds_at_a_time_are_runs_that_the_deployment_starts() -> None:
    template = Template.from_stack(fleet_app(parallel_builds="6").models)
    ((name, machine),) = template.find_resources("AWS::StepFunctions::StateMachine").items()

    template.has_resource_properties("Custom::TritonBuild", {"StateMachine": {"Ref": name}})
    assert "BuildRunsArn" in template.find_outputs("*")
    assert '"MaxConcurrency":6' in json.dumps(machine).replace("\\", "")


def test_the_secret_of_a_private_hub_reaches_the_build_and_no_other_is_readable() -> None:
    arn = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:hub-token-a1B2c3"
    template = Template.from_stack(fleet_app(models="resnet50", hub_token=arn).models).to_json()
    resources = template["Resources"].values()
    (project,) = (each for each in resources if each["Type"] == "AWS::CodeBuild::Project")
    read = [
        statement["Resource"]
        for each in resources
        if each["Type"] == "AWS::IAM::Policy"
        for statement in each["Properties"]["PolicyDocument"]["Statement"]
        if "secretsmanager" in str(statement["Action"])
    ]

    assert {"Name": "HF_TOKEN", "Type": "SECRETS_MANAGER", "Value": arn} in project["Properties"][
        "Environment"
    ]["EnvironmentVariables"]
    assert read == [arn]


def test_weights_reach_the_build() -> None:
    template = Template.from_stack(
        fleet_app(models="resnet50", weights="RESNET50_WEIGHTS=s3://weights/resnet50.pt").models
    )
    (project,) = template.find_resources("AWS::CodeBuild::Project").values()
    variables = project["Properties"]["Environment"]["EnvironmentVariables"]

    assert {"Name": "RESNET50_WEIGHTS", "Type": "PLAINTEXT", "Value": "s3://weights/resnet50.pt"} in variables


def test_the_source_of_the_build_job_is_the_model_folder(default: FleetApp) -> None:
    builds = default.models.builds

    assert builds is not None
    assert Path(ROOT / "model_builds" / "requirements.txt").is_file()
    assert builds.source.is_zip_archive
