from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk.assertions import Template
from fleet_app import ELSEWHERE, ROOT, UPDATES, FleetApp, fleet_app
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension
from syrupy.location import PyTestLocation

PROJECT = "AWS::CodeBuild::Project"
AMI = "al2-ami-sagemaker-inference-gpu-2-1"
KEY = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd"
SECRET = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:hub-token-a1B2c3"


class _TemplateExtension(JSONSnapshotExtension):
    """One file a template, in tests/snapshots."""

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        return str(ROOT / "tests" / "snapshots" / test_location.basename)


@pytest.fixture(scope="module")
def default() -> FleetApp:
    """The fleet with default settings and two models."""
    return fleet_app()


@pytest.fixture(scope="module")
def elsewhere() -> FleetApp:
    """A fleet with everything that the default leaves out, and without a build job."""
    return fleet_app(**ELSEWHERE)


@pytest.fixture(scope="module")
def updated() -> FleetApp:
    """A fleet whose updates, alarms and warm-up are configured."""
    return fleet_app(**UPDATES, deployment_size="2", server_error_percent="2", minimum_requests="3")


@pytest.fixture(scope="module")
def adjusted() -> FleetApp:
    """A fleet with what can be named or switched off, in a bucket that an earlier fleet has left."""
    return fleet_app(
        models="resnet50",
        parallel_builds="6",
        bucket="kept-models",
        encryption_key=KEY,
        asset_key=KEY,
        hub_token=SECRET,
        weights="RESNET50_WEIGHTS=s3://weights/resnet50.pt",
        release="25.04",
        inference_ami=AMI,
        retired_models="bert,t5",
        rollback_alarms="false",
        warm_up="off",
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


def _deployment(fleet: FleetApp) -> dict[str, Any]:
    (endpoint,) = Template.from_stack(fleet.inference).find_resources("AWS::SageMaker::Endpoint").values()
    config: dict[str, Any] = endpoint["Properties"]["DeploymentConfig"]
    return config


def test_updates_alarms_and_warm_up_are_as_the_configuration_says(updated: FleetApp) -> None:
    template = Template.from_stack(updated.inference)
    alarms = template.find_resources("AWS::CloudWatch::Alarm").values()
    (paging,) = template.find_resources("AWS::CloudWatch::CompositeAlarm").values()

    assert _deployment(updated)["BlueGreenUpdatePolicy"]["TrafficRoutingConfiguration"]["CanarySize"] == {
        "Type": "INSTANCE_COUNT",
        "Value": 2,
    }
    assert {
        each["Properties"]["Threshold"]
        for each in alarms
        if each["Properties"]["AlarmName"].endswith("ServerErrors")
    } == {2}
    assert {each["Properties"]["AlarmName"] for each in alarms if ">= 3" in str(each)} >= {
        "TritonFleet-g5-2xlarge-25-09-page-Latency",
        "TritonFleet-g5-2xlarge-25-09-rollback-ServerErrors",
        "TritonFleet-g5-2xlarge-25-09-rollback-NewFleetModelErrors",
    }
    assert paging["Properties"]["AlarmActions"] == [UPDATES["alarm_topic"]]
    (rule,) = template.find_resources("AWS::Events::Rule").values()
    assert '"model":"minilm"' in rule["Properties"]["Targets"][0]["Input"]


def test_a_fleet_can_do_without_warm_up_and_rollback_alarms(adjusted: FleetApp) -> None:
    assert adjusted.inference.fleet.warm_up is None
    assert "AutoRollbackConfiguration" not in _deployment(adjusted)


def _code(*stacks: Stack) -> set[str]:
    """The types of resources that run code while a stack is deployed."""
    types = {
        resource["Type"]
        for stack in stacks
        for resource in Template.from_stack(stack).to_json()["Resources"].values()
    }
    return {each for each in types if each.startswith(("Custom::", "AWS::Lambda::"))}


def test_a_deployment_that_is_to_start_no_build_runs_no_code() -> None:
    assert _code(fleet_app(build_on_deployment="false").models) == set()


def test_a_deployment_waits_for_its_build_only_where_it_is_told_to() -> None:
    assert "Custom::TritonModels" in _code(fleet_app(wait_for_build="true").models)


@pytest.mark.parametrize(
    ("stack", "kind", "property_"),
    [
        ("inference", "AWS::SageMaker::EndpointConfig", {"InferenceAmiVersion": AMI}),
        ("inference", "AWS::SageMaker::Model", {"ModelDataUrl": "s3://kept-models/models/"}),
        ("inference", "Custom::TritonNames", {"NotNeeded": ["bert", "t5"]}),
        ("models", PROJECT, {"Name": "FLEET_REPOSITORY", "Value": "s3://kept-models/models/"}),
        ("models", PROJECT, {"Name": "HF_TOKEN", "Value": SECRET, "Type": "SECRETS_MANAGER"}),
        ("models", PROJECT, {"Name": "RESNET50_WEIGHTS", "Value": "s3://weights/resnet50.pt"}),
    ],
)
def test_a_setting_reaches_its_resource(
    stack: str, kind: str, property_: dict[str, Any], adjusted: FleetApp
) -> None:
    resources = Template.from_stack(getattr(adjusted, stack)).find_resources(kind)

    assert [each for each in _objects(resources) if property_.items() <= each.items()]


def test_what_builds_may_use_the_key_of_the_assets_and_read_the_secret_of_the_hub(adjusted: FleetApp) -> None:
    policies = Template.from_stack(adjusted.models).find_resources("AWS::IAM::Policy")
    found = [each for each in _objects(policies) if "Action" in each]

    # Of the build, and of the steps of a run.
    assert [each["Resource"] for each in found if each.get("Sid") == "SourceKey"] == [KEY, KEY]
    assert [each["Resource"] for each in found if "secretsmanager" in str(each["Action"])] == [SECRET]


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a template's resources, however deep."""
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(each)


def test_a_bucket_that_a_destroyed_fleet_has_left_is_taken_up_again(adjusted: FleetApp) -> None:
    template = Template.from_stack(adjusted.models)

    assert [template.find_resources(kind) for kind in ("AWS::S3::Bucket", "AWS::KMS::Key")] == [{}, {}]


def test_several_builds_at_a_time_are_runs_that_the_deployment_starts(adjusted: FleetApp) -> None:
    template = Template.from_stack(adjusted.models)
    ((name, machine),) = template.find_resources("AWS::StepFunctions::StateMachine").items()

    template.has_resource_properties("Custom::TritonBuild", {"StateMachine": {"Ref": name}})
    assert "BuildRunsArn" in template.find_outputs("*")
    assert '"MaxConcurrency":6' in json.dumps(machine).replace("\\", "")


def test_new_weights_and_the_end_of_an_interval_start_runs_of_one_build_at_a_time() -> None:
    fleet = fleet_app(build_on_new_weights="true", weights_from="s3://weights/", build_every_hours="12")
    template = Template.from_stack(fleet.models)
    (machine,) = template.find_resources("AWS::StepFunctions::StateMachine").values()
    rules = template.find_resources("AWS::Events::Rule").values()

    assert '"MaxConcurrency":1' in json.dumps(machine).replace("\\", "")
    assert {each["Properties"].get("ScheduleExpression") for each in rules} == {None, "rate(12 hours)"}
