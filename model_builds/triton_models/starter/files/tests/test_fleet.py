"""The fleet of cdk.json: it synthesizes, cdk-nag finds nothing, and it has the configured size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aws_cdk import App, Stack
from aws_cdk.assertions import Template
from cdk_nag import AwsSolutionsChecks

from app import declare
from triton_fleet.app import FleetConfig, fleet_config
from triton_models.spec import load_builds, model_names

CONTEXT = json.loads((Path(__file__).parents[1] / "cdk.json").read_text())["context"]


@pytest.fixture(scope="module")
def app() -> App:
    """The app with the settings of cdk.json."""
    app = App(context=CONTEXT | {"aws:cdk:disable-asset-staging": True})
    declare(app, fleet_config(app.node, environment={}))
    app.synth()
    return app


@pytest.fixture(scope="module")
def config(app: App) -> FleetConfig:
    """The settings of cdk.json."""
    return fleet_config(app.node, environment={})


def test_every_declaration_is_valid() -> None:
    assert len(load_builds(model_names())) == len(model_names())


def test_every_finding_of_cdk_nag_is_accepted_with_a_reason(app: App) -> None:
    violations = AwsSolutionsChecks(app).validate_scope(app).violations

    assert [each.rule_name for each in violations] == []


def test_the_endpoint_scales_between_the_configured_sizes(app: App, config: FleetConfig) -> None:
    (stack,) = [each for each in app.node.children if isinstance(each, Stack) and "Inference" in each.stack_name]

    Template.from_stack(stack).has_resource_properties(
        "AWS::ApplicationAutoScaling::ScalableTarget",
        {"MinCapacity": config.min_capacity, "MaxCapacity": config.max_capacity},
    )
