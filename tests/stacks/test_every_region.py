"""cfn-lint has nothing to say of the templates, in any region that they can be deployed in."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest
from aws_cdk import Stack
from aws_cdk.assertions import Template
from cfnlint.api import ManualArgs, lint
from fleet_app import ELSEWHERE, fleet_app
from vpc_fleet import vpc_fleet

from triton_models.facts.build_machines import BUILD_MACHINES
from triton_models.facts.releases import IMAGE_ACCOUNTS

# AWS publishes the image in the United Arab Emirates and SageMaker has an API there, while the registry of
# resource types that cfn-lint 1.58 carries has no SageMaker hosting for it. Whether CloudFormation takes them
# is to be tried there; a newer cfn-lint that knows them fails this test, and then this line goes.
UNREGISTERED = {
    f"E3006 Resource type 'AWS::SageMaker::{name}' does not exist in 'me-central-1'"
    for name in ("Endpoint", "EndpointConfig", "Model")
}
EVERYWHERE = list(IMAGE_ACCOUNTS)
SOME = ["eu-south-1", "us-east-1"]
CPU, T4 = "ml.c7i.2xlarge", "ml.g4dn.xlarge"

STACKS: dict[str, tuple[Callable[[], Stack], Sequence[str], set[str]]] = {
    "serving": (lambda: fleet_app().inference, EVERYWHERE, UNREGISTERED),
    "serving from a VPC": (lambda: vpc_fleet().inference, EVERYWHERE, UNREGISTERED),
    "serving elsewhere": (lambda: fleet_app(**ELSEWHERE).inference, SOME, set()),
    "serving with signals": (
        lambda: fleet_app(signals="true", watch="minilm").inference,
        EVERYWHERE,
        UNREGISTERED,
    ),
    "serving on CPUs": (lambda: fleet_app(instance_type=CPU).inference, SOME, set()),
    "no build": (lambda: fleet_app(models="").models, EVERYWHERE, set()),
    "no build elsewhere": (lambda: fleet_app(**ELSEWHERE).models, SOME, set()),
    "a build on a rented GPU": (lambda: fleet_app().models, list(BUILD_MACHINES["A10G"].regions), set()),
    "a build on CPUs": (lambda: fleet_app(instance_type=CPU).models, SOME, set()),
    "a build where there is no GPU on demand": (lambda: fleet_app(instance_type=T4).models, SOME, set()),
}


def _findings(template: object, regions: Sequence[str]) -> set[str]:
    matches = lint(json.dumps(template), config=ManualArgs(regions=list(regions)))  # type: ignore[arg-type] # any text is a region
    return {f"{match.rule.id} {match.message}" for match in matches}


@pytest.mark.story
@pytest.mark.parametrize("name", STACKS)
def test_a_template_is_good_in_every_region_it_is_for(name: str) -> None:
    stack, regions, unregistered = STACKS[name]

    assert _findings(Template.from_stack(stack()).to_json(), regions) == unregistered


def test_cfn_lint_is_awake() -> None:
    template = Template.from_stack(fleet_app().inference).to_json()
    (config,) = (each for each in template["Resources"].values() if each["Type"].endswith("EndpointConfig"))
    config["Properties"]["ProductionVariants"][0]["InitialInstanceCount"] = "several"

    assert _findings(template, SOME)
