"""The services that CloudFormation calls for a fleet: docs/deploy.md lists them for a restricted role."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk.assertions import Template
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER
from fleet_app import COMPANY, fleet_app

from app import declare
from triton_fleet.app import fleet_configs

PAGE = Path(__file__).parents[2] / "docs" / "deploy.md"
EVERY = "every fleet"
EMAIL = {"alarm_email": "ml@example.com"}
# Services of handlers for properties that no template of this project has.
UNUSED: Mapping[str, set[str]] = {
    "AWS::Lambda::Function": {"ec2", "elasticfilesystem", "s3files"},
    "AWS::Logs::LogGroup": {"firehose"},
    "AWS::S3::Bucket": {"s3tables"},
}


def documented() -> dict[str, set[str]]:
    """Return the services that the page lists, by what they are for."""
    _, _, table = PAGE.read_text().partition("| for | services |")
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", table.partition("\n\n")[0], re.MULTILINE)
    return {purpose: set(re.findall(r"`([a-z0-9-]+)`", listed)) for purpose, listed in rows}


def called(stacks: Iterable[Stack]) -> set[str]:
    """Return the services that CloudFormation calls for the resources of stacks."""
    found = set()
    for stack in stacks:
        template = Template.from_stack(stack).to_json()
        if "Fn::GetStackOutput" in json.dumps(template):
            found.add("cloudformation")
        for kind in {each["Type"] for each in template["Resources"].values()}:
            found |= of_type(kind) - UNUSED.get(kind, set())
    return found


def of_type(kind: str) -> set[str]:
    if kind.startswith("Custom::"):
        return {"lambda"}
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
    handlers = {name: each for name, each in schema.get("handlers", {}).items() if name != "list"}
    # An older type has no handlers: its service has the name that it is called by.
    return {
        permission.partition(":")[0] for each in handlers.values() for permission in each["permissions"]
    } or {kind.split("::")[1].lower()}


@pytest.mark.parametrize(
    ("settings", "purposes"),
    [
        ({}, []),
        ({"instance_type": "ml.g4dn.xlarge"}, []),
        (EMAIL, ["`alarm_email`"]),
        (EMAIL | {"monthly_budget_usd": 100}, ["`alarm_email`", "`monthly_budget_usd`"]),
        ({"parallel_builds": 4}, ["`parallel_builds`"]),
        ({"vpc": COMPANY["vpc"]}, ["`vpc` without `security_groups`"]),
        (COMPANY, ["`vpc` without `security_groups`", "`monthly_budget_usd`"]),
    ],
)
def test_the_page_lists_the_services_that_a_setting_needs(
    settings: dict[str, Any], purposes: list[str]
) -> None:
    fleet = fleet_app(**{"alarm_email": "", **settings})
    page = documented()

    assert called((fleet.models, fleet.inference)) == page[EVERY].union(*map(page.__getitem__, purposes))


def test_the_page_lists_the_services_that_the_delivery_needs() -> None:
    stage = {"account": "111111111111", "region": "eu-west-1"}
    provider = "arn:aws:iam::111111111111:oidc-provider/token.actions.githubusercontent.com"
    stages = {"staging": stage, "production": stage | {"github_provider": provider}}
    shared = {"models": [], "github_repository": "octo-org/search", "stages": stages}
    app = App(context={"tritonFleet": shared, "stage": "*"})
    for config in fleet_configs(app.node, environment={}):
        declare(app, config)
    delivery = [each for each in app.node.children if each.node.id.endswith("Delivery")]
    page = documented()

    assert called(each for each in delivery if isinstance(each, Stack)) == {"cloudformation", "iam"}
    assert page["`github_repository`, and two stages in one account"] == {"cloudformation"}
