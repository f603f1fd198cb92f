from __future__ import annotations

from typing import Any

import pytest
from botocore_model import resolved
from declared import declare, template_of_build

from triton_fleet import ReservedMachines


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    source = declare(tmp_path_factory.mktemp("model_builds"), "minilm")
    machine = ReservedMachines(base_capacity=2)
    return template_of_build(source, instance_type="ml.g6.2xlarge", machine=machine)


def _one(template: dict[str, Any], kind: str) -> tuple[str, dict[str, Any]]:
    ((name, resource),) = ((n, r) for n, r in template["Resources"].items() if r["Type"] == kind)
    return name, resource["Properties"]


def test_the_fleet_has_the_serving_gpu_as_often_as_was_asked(template: dict[str, Any]) -> None:
    _, fleet = _one(template, "AWS::CodeBuild::Fleet")

    assert fleet == {
        "BaseCapacity": 2,
        "ComputeType": "CUSTOM_INSTANCE_TYPE",
        "ComputeConfiguration": {"instanceType": "g6.xlarge", "disk": 64},
        "EnvironmentType": "LINUX_GPU_CONTAINER",
        "OverflowBehavior": "QUEUE",
    }


def test_builds_run_in_the_triton_image_on_the_fleet(template: dict[str, Any]) -> None:
    fleet, _ = _one(template, "AWS::CodeBuild::Fleet")
    _, project = _one(template, "AWS::CodeBuild::Project")
    environment = project["Environment"]

    assert environment["Fleet"] == {"FleetArn": {"Fn::GetAtt": [fleet, "Arn"]}}
    assert environment["Type"] == "LINUX_GPU_CONTAINER"
    assert resolved(environment["Image"], template).endswith("/sagemaker-tritonserver:25.09-py3")
    assert "billed while they exist" in project["Description"]
