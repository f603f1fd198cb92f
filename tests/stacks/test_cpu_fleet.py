from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk import App
from aws_cdk.assertions import Template
from fleet_app import FleetApp, fleet_app, mistakes

from triton_fleet.app import fleet_configs

CPU = "ml.c7i.2xlarge"  # 8 vCPUs


@pytest.fixture(scope="module")
def fleet() -> FleetApp:
    """The fleet with default settings, on CPUs."""
    return fleet_app(instance_type=CPU)


@pytest.fixture(scope="module")
def adjusted() -> FleetApp:
    """A fleet on CPUs with targets and an image of its own."""
    return fleet_app(
        instance_type="ml.m7i.large",
        invocations_per_instance_per_minute="900",
        cpu_utilization_percent="50",
        cpu_image="true",
    )


@pytest.fixture(scope="module")
def inference(fleet: FleetApp) -> dict[str, Any]:
    return Template.from_stack(fleet.inference).to_json()


def _of_type(template: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [each["Properties"] for each in template["Resources"].values() if each["Type"] == kind]


def _policies(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        each["PolicyName"].rpartition("-")[2]: each["TargetTrackingScalingPolicyConfiguration"]
        for each in _of_type(template, "AWS::ApplicationAutoScaling::ScalingPolicy")
    }


def test_the_endpoint_is_on_cpus_with_the_image_that_aws_lists(inference: dict[str, Any]) -> None:
    (config,) = _of_type(inference, "AWS::SageMaker::EndpointConfig")
    (variant,) = config["ProductionVariants"]
    (model,) = _of_type(inference, "AWS::SageMaker::Model")

    assert variant["InstanceType"] == CPU
    assert "InferenceAmiVersion" not in variant
    assert ':25.09-py3"' in json.dumps(model["PrimaryContainer"]["Image"])


def test_it_scales_by_how_busy_all_its_vcpus_are(inference: dict[str, Any]) -> None:
    (policy,) = _policies(inference).values()

    assert policy["TargetValue"] == 60 * 8
    assert policy["CustomizedMetricSpecification"]["MetricName"] == "CPUUtilization"


def test_requests_are_a_target_where_somebody_says_how_many(adjusted: FleetApp) -> None:
    policies = _policies(Template.from_stack(adjusted.inference).to_json())

    assert policies["Invocations"]["TargetValue"] == 900
    assert policies["CpuUtilization"]["TargetValue"] == 50 * 2


def test_nothing_asks_for_a_gpu_that_is_not_there(inference: dict[str, Any]) -> None:
    metrics = [
        resource
        for kind in ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::Dashboard")
        for resource in _of_type(inference, kind)
    ]
    text = json.dumps([*metrics, _of_type(inference, "AWS::ApplicationAutoScaling::ScalingPolicy")])

    assert "GPU" not in text
    assert "CPUUtilization" in text


def test_the_volume_with_the_models_is_encrypted_with_the_repositorys_key(inference: dict[str, Any]) -> None:
    (config,) = _of_type(inference, "AWS::SageMaker::EndpointConfig")

    assert config["KmsKeyId"]["Fn::ImportValue"].startswith("TritonFleetModels:")


def test_models_are_built_without_a_gpu_in_the_image_that_serves_them(fleet: FleetApp) -> None:
    (project,) = _of_type(Template.from_stack(fleet.models).to_json(), "AWS::CodeBuild::Project")
    environment = project["Environment"]
    variables = {each["Name"] for each in environment["EnvironmentVariables"]}
    build = json.loads(project["Source"]["BuildSpec"])["phases"]["build"]["commands"][0]

    assert environment["Type"] == "LINUX_CONTAINER"
    assert environment["ComputeType"] == "BUILD_GENERAL1_LARGE"
    assert environment["ImagePullCredentialsType"] == "SERVICE_ROLE"
    assert ':25.09-py3"' in json.dumps(environment["Image"])
    assert "FLEET_GPU" not in variables
    assert " --cpu --repository " in build


def test_the_image_for_cpus_serves_and_builds_where_it_is_asked_for(adjusted: FleetApp) -> None:
    (model,) = _of_type(Template.from_stack(adjusted.inference).to_json(), "AWS::SageMaker::Model")
    (project,) = _of_type(Template.from_stack(adjusted.models).to_json(), "AWS::CodeBuild::Project")

    for image in (model["PrimaryContainer"]["Image"], project["Environment"]["Image"]):
        assert ':25.09-py3-cpu"' in json.dumps(image)


@pytest.mark.parametrize(
    ("instance_type", "key", "value"),
    [
        (CPU, "invocations_per_gpu_per_minute", 700),
        (CPU, "gpu_utilization_percent", 50),
        ("ml.g5.2xlarge", "invocations_per_instance_per_minute", 700),
        ("ml.g5.2xlarge", "cpu_utilization_percent", 50),
    ],
)
def test_a_target_of_the_other_hardware_is_reported(instance_type: str, key: str, value: float) -> None:
    (problem,) = mistakes(tritonFleet={"instance_type": instance_type, key: value})

    assert problem.rule == "scaling-target-hardware"
    assert f"{key} is {value}" in problem.what
    assert instance_type in problem.what
    assert problem.fix == f"remove {key}"


def test_a_default_spelt_out_for_the_other_hardware_is_nobodys_wish() -> None:
    context = {"tritonFleet": {"instance_type": CPU, "gpu_utilization_percent": 60}}

    assert len(fleet_configs(App(context=context).node, environment={})) == 1
