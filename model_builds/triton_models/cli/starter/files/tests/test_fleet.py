"""The fleet of cdk.json: it synthesizes, cdk-nag finds nothing, and each stage has the configured size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aws_cdk import App
from aws_cdk.assertions import Template
from cdk_nag import AwsSolutionsChecks

from app import declare
from triton_fleet.app import fleet_configs
from triton_models.spec import load_builds, model_names

# With every stage, if there are stages.
CONTEXT = json.loads((Path(__file__).parents[1] / "cdk.json").read_text())["context"] | {"stage": "*"}


@pytest.fixture(scope="module")
def app() -> App:
    """The app with the settings of cdk.json."""
    app = App(context=CONTEXT | {"aws:cdk:disable-asset-staging": True})
    for config in fleet_configs(app.node, environment={}):
        declare(app, config)
    app.synth()
    return app


def test_every_declaration_is_valid() -> None:
    assert len(load_builds(model_names())) == len(model_names())


def test_every_finding_of_cdk_nag_is_accepted_with_a_reason(app: App) -> None:
    violations = AwsSolutionsChecks(app).validate_scope(app).violations

    assert [each.rule_name for each in violations] == []


def test_each_endpoint_scales_between_the_configured_sizes(app: App) -> None:
    for config in fleet_configs(app.node, environment={}):
        stack = app.node.find_child(f"{config.name}Inference")

        Template.from_stack(stack).has_resource_properties(
            "AWS::ApplicationAutoScaling::ScalableTarget",
            {"MinCapacity": config.min_capacity, "MaxCapacity": config.max_capacity},
        )
