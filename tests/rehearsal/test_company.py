"""Fleets with what a company has: its VPC, roles, package index and proxy, and its rules for roles."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

import pytest
from aws_cdk import Stack, Tags
from aws_cdk.assertions import Template

from tests.stacks.fleet_app import COMPANY, FleetApp, fleet_app, new_fleet

T4 = "ml.g4dn.xlarge"  # CodeBuild does not rent it: models are built in Processing jobs
SUBNETS = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]


BOOTSTRAPPED = {
    "@aws-cdk/core:permissionsBoundary": {"name": "company-boundary"},
    "@aws-cdk/core:bootstrapQualifier": "company",
}


def resources(stack: Stack, kind: str) -> list[dict[str, Any]]:
    return [each["Properties"] for each in Template.from_stack(stack).find_resources(kind).values()]


def statements(stack: Stack) -> list[dict[str, Any]]:
    """Return the statements of all policies."""
    policies = resources(stack, "AWS::IAM::Policy")
    return [statement for each in policies for statement in each["PolicyDocument"]["Statement"]]


def project_of(fleet: FleetApp) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the build project and its variables."""
    [project] = resources(fleet.models, "AWS::CodeBuild::Project")
    return project, {each["Name"]: each["Value"] for each in project["Environment"]["EnvironmentVariables"]}


def egress(stack: Stack) -> list[set[int]]:
    """Return the ports that each security group of a stack lets out."""
    return [
        {each["ToPort"] for each in group["SecurityGroupEgress"]}
        for group in resources(stack, "AWS::EC2::SecurityGroup")
    ]


def test_builds_and_instances_are_in_the_vpc_with_their_roles_and_builds_have_the_index() -> None:
    fleet = fleet_app(**COMPANY)
    project, values = project_of(fleet)
    [model] = resources(fleet.inference, "AWS::SageMaker::Model")

    assert project["VpcConfig"]["Subnets"] == model["VpcConfig"]["Subnets"] == SUBNETS
    assert project["VpcConfig"]["VpcId"] == "vpc-0123456789abcdef0"
    assert values["PIP_INDEX_URL"] == "https://index.example.com/simple"
    assert values["NO_PROXY"].startswith("169.254.169.254")
    assert project["ServiceRole"] == COMPANY["build_role"]
    assert model["ExecutionRoleArn"] == COMPANY["endpoint_role"]
    policies = resources(fleet.models, "AWS::IAM::Policy")
    assert ["builds"] in [each.get("Roles") for each in policies]


def test_builds_reach_the_index_and_the_proxy_and_instances_do_not() -> None:
    fleet = fleet_app(**COMPANY)
    given = COMPANY["build_environment"]
    assert isinstance(given, dict)
    wanted = {urlsplit(each).port or 443 for name, each in given.items() if name != "NO_PROXY"}

    assert wanted == {443, 3128}
    assert egress(fleet.models) == [wanted]
    assert egress(fleet.inference) == [{443}]


def test_jobs_run_in_the_vpc_with_the_index_the_proxy_and_the_tags_of_the_app() -> None:
    fleet = new_fleet(instance_type=T4, **COMPANY)
    Tags.of(fleet.app).add("cost-center", "ml")
    _, values = project_of(fleet)
    parts = values["FLEET_JOB"]["Fn::Join"][1]
    request = json.loads("".join(part if isinstance(part, str) else "-" for part in parts))

    assert request["NetworkConfig"]["VpcConfig"]["Subnets"] == SUBNETS
    assert request["Environment"]["PIP_INDEX_URL"] == "https://index.example.com/simple"
    assert request["Tags"] == [{"Key": "cost-center", "Value": "ml"}]


def test_builds_and_instances_run_the_image_of_the_companys_registry() -> None:
    fleet = fleet_app(**COMPANY)
    project, _ = project_of(fleet)
    [model] = resources(fleet.inference, "AWS::SageMaker::Model")
    pulls = [each["Resource"] for each in statements(fleet.models) if each.get("Sid") == "ImagePull"]

    for image in (project["Environment"]["Image"], model["PrimaryContainer"]["Image"]):
        assert json.dumps(image).count("123456789012.dkr.ecr.us-east-1.") == 1
        assert json.dumps(image).count("/mirror/triton:25.09-py3") == 1
    assert ":ecr:us-east-1:123456789012:repository/mirror/triton" in json.dumps(pulls)


@pytest.mark.parametrize(("instance_type", "encrypted"), [("ml.p3.2xlarge", True), (T4, False)])
def test_the_volume_of_a_job_has_the_repositorys_key_where_the_type_takes_one(
    instance_type: str, encrypted: bool
) -> None:
    fleet = fleet_app(instance_type=instance_type, release="24.09", allow_unlisted_instance_type="true")
    variables = json.dumps(project_of(fleet)[1])
    sids = {each.get("Sid") for each in statements(fleet.models)}

    assert ("VolumeKmsKeyId" in variables) == encrypted
    assert ({"Volume", "VolumeAttached"} <= sids) == encrypted
    assert "Tags" not in variables  # the app has none


def test_every_log_group_and_every_function_has_the_key_of_the_company() -> None:
    fleet = fleet_app(**COMPANY)
    kinds = {
        "AWS::Logs::LogGroup": "KmsKeyId",
        "AWS::Lambda::Function": "KmsKeyArn",
        "Custom::TritonEndpointStart": "KmsKeyId",
    }
    found = {
        kind: [each.get(name) for stack in (fleet.models, fleet.inference) for each in resources(stack, kind)]
        for kind, name in kinds.items()
    }

    assert {kind: set(keys) for kind, keys in found.items()} == {
        kind: {COMPANY["log_encryption_key"]} for kind in kinds
    }


def test_the_budget_warns_the_alarms_topic_and_counts_the_fleets_endpoints() -> None:
    [budget] = resources(fleet_app(**COMPANY).inference, "AWS::Budgets::Budget")

    assert budget["Budget"]["CostFilters"] == {"TagKeyValue": ["user:triton-fleet:fleet$TritonFleet"]}
    subscriber = {"SubscriptionType": "SNS", "Address": COMPANY["alarm_topic"]}
    assert [each["Subscribers"] for each in budget["NotificationsWithSubscribers"]] == [[subscriber]] * 3


def test_roles_have_the_boundary_and_assets_the_bucket_of_the_companys_bootstrap() -> None:
    fleet = new_fleet(**BOOTSTRAPPED)
    roles = [role for stack in (fleet.models, fleet.inference) for role in resources(stack, "AWS::IAM::Role")]
    bounds = {json.dumps(role.get("PermissionsBoundary", "")) for role in roles}

    assert len(roles) > 4
    assert {each.count("policy/company-boundary") for each in bounds} == {1}
    assert "cdk-company-assets-" in json.dumps(project_of(fleet)[0]["Source"])
    assert "hnb659fds" not in json.dumps(Template.from_stack(fleet.models).to_json())
