"""A fleet whose GPU CodeBuild does not rent is built in Processing jobs, and says so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk.assertions import Match, Template
from cfnlint.api import ManualArgs, lint
from fleet_app import accepted_apart, findings, fleet_app

from triton_fleet import ProcessingJob, ReservedMachines
from triton_fleet.builds.model_build_project import ModelBuildProject
from triton_fleet.fleet.accepted_findings import accept
from triton_fleet.fleet.accepted_in_builds import in_builds
from triton_models.facts.build_machines.on_demand import BUILD_MACHINES
from triton_models.facts.instances import INSTANCE_TYPES
from triton_models.facts.quota_needs import needs

T4 = "ml.g4dn.xlarge"


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    found: dict[str, Any] = Template.from_stack(fleet_app(instance_type=T4).models).to_json()
    return found


@pytest.mark.parametrize("given", [{}, {"region": "eu-south-1"}])
def test_no_pack_finds_what_was_not_accepted_about_jobs(given: dict[str, str]) -> None:
    assert findings(fleet_app(instance_type=T4, **given)) == set()


def test_every_acceptance_about_what_starts_a_job_is_needed() -> None:
    with accepted_apart() as accepted:
        fleet = fleet_app(instance_type=T4)
    accept(each for each in accepted if "StarterRole" not in each.construct.node.path)
    found = findings(fleet)

    assert {each.split("/")[-2] for each in found} == {"StarterRole"}
    assert len(found) == 5


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
    fleet = fleet_app(environment={"CDK_DEFAULT_REGION": region})
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
    fleet = fleet_app(models="")
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


def test_builds_are_started_as_any_other(template: dict[str, Any]) -> None:
    project = template["Outputs"]["BuildProjectName"]["Value"]["Ref"]

    assert template["Resources"][project]["Type"] == "AWS::CodeBuild::Project"


def test_the_usual_machine_needs_no_output() -> None:
    assert "BuildMachine" not in Template.from_stack(fleet_app().models).to_json()["Outputs"]


def test_the_template_is_good_where_there_is_no_gpu_on_demand(template: dict[str, Any]) -> None:
    matches = lint(json.dumps(template), config=ManualArgs(regions=["eu-south-1", "us-east-1"]))

    assert [f"{match.rule.id} {match.message}" for match in matches] == []
