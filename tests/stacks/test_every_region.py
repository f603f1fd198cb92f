"""Templates without a region are good in every region of the image table: one synthesis, many regions."""

from __future__ import annotations

import json

import pytest
from aws_cdk import Stack
from aws_cdk.assertions import Template
from cfnlint.api import ManualArgs, lint
from fleet_app import fleet_app
from vpc_fleet import vpc_fleet

from triton_models.facts.build_machines.on_demand import BUILD_MACHINES
from triton_models.facts.instances import INSTANCE_TYPES
from triton_models.facts.releases import IMAGE_ACCOUNTS

# AWS publishes the image in the United Arab Emirates and SageMaker has an API there, while the registry of
# resource types that cfn-lint 1.58 carries has no SageMaker hosting for it. Whether CloudFormation takes them
# is to be tried there; a newer cfn-lint that knows them fails this test, and then this line goes.
UNREGISTERED = {
    f"E3006 Resource type 'AWS::SageMaker::{name}' does not exist in 'me-central-1'"
    for name in ("Endpoint", "EndpointConfig", "Model")
}


def _findings(stack: Stack, regions: list[str]) -> set[str]:
    template = json.dumps(Template.from_stack(stack).to_json())
    matches = lint(template, config=ManualArgs(regions=regions))  # type: ignore[arg-type] # any text is a region
    return {f"{match.rule.id} {match.message}" for match in matches}


@pytest.mark.parametrize("name", ["default", "in a VPC"])
def test_the_inference_stack_is_good_wherever_the_image_is(name: str) -> None:
    fleet = fleet_app() if name == "default" else vpc_fleet()

    assert _findings(fleet.inference, list(IMAGE_ACCOUNTS)) == UNREGISTERED


def test_the_models_stack_without_a_build_job_is_good_everywhere() -> None:
    assert _findings(fleet_app(models="").models, list(IMAGE_ACCOUNTS)) == set()


def test_the_build_job_is_good_wherever_the_gpu_can_be_rented() -> None:
    fleet = fleet_app()
    builds = fleet.models.library.builds

    assert builds is not None
    gpu = INSTANCE_TYPES["ml.g5.2xlarge"].gpu
    assert gpu is not None
    assert _findings(fleet.models, list(BUILD_MACHINES[gpu.name].regions)) == set()
