from __future__ import annotations

from typing import Any

import pytest
from aws_cdk.assertions import Match, Template
from fleet_app import findings, fleet_app, new_fleet

from triton_fleet import ProcessingJob, ReservedMachines
from triton_fleet.builds.model_build_project import ModelBuildProject
from triton_fleet.fleet.accepted_findings import accept, in_builds
from triton_models.facts.build_machines import BUILD_MACHINES
from triton_models.facts.instances import INSTANCE_TYPES
from triton_models.facts.quotas import needs

T4 = "ml.g4dn.xlarge"


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    found: dict[str, Any] = Template.from_stack(fleet_app(instance_type=T4).models).to_json()
    return found


@pytest.mark.parametrize(
    ("region", "quota"),
    [
        ("us-east-1", "Concurrently running builds for Linux GPU Small environment"),
        ("eu-north-1", "ml.g5.2xlarge for processing job usage"),
        ("ap-southeast-2", "ml.g5.2xlarge for processing job usage"),
    ],
)
def test_a_stack_without_a_region_builds_on_what_there_is_where_it_is_deployed(
    region: str, quota: str
) -> None:
    fleet = new_fleet(environment={"CDK_DEFAULT_REGION": region})
    machine = fleet.models.library.builds.machine if fleet.models.library.builds else None
    asked = {need.name for need in needs(INSTANCE_TYPES["ml.g5.2xlarge"], region=region)}

    assert machine is not None
    assert isinstance(machine.choice, ProcessingJob) == ("processing" in quota)
    assert quota in asked
    assert fleet.models.region.startswith("${Token")


def test_a_template_with_a_machine_of_few_regions_is_refused_in_all_others() -> None:
    template = Template.from_stack(fleet_app().models)
    mappings = template.find_mappings("*")
    (offered,) = (each for name, each in mappings.items() if "OnDemand" in name)

    assert set(offered) == set(BUILD_MACHINES["A10G"].regions or ())
    template.has_resource_properties(
        "AWS::CodeBuild::Project", {"Environment": {"ComputeType": {"Fn::FindInMap": Match.any_value()}}}
    )


def test_reserved_machines_add_nothing_to_accept() -> None:
    fleet = new_fleet(models="")
    builds = ModelBuildProject(
        fleet.models,
        "Builds",
        repository=fleet.models.library.repository,
        source="model_builds",
        models=["minilm"],
        machine=ReservedMachines(),
    )
    accept(in_builds(builds, None, None))

    assert findings(fleet) == set()


def test_the_stack_says_what_builds_run_on_and_why(template: dict[str, Any]) -> None:
    output = template["Outputs"]["BuildMachine"]

    assert output["Value"] == T4
    assert "CodeBuild has no T4 on demand" in output["Description"]
