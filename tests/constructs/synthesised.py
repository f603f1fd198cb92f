"""Templates and annotations for the tests of constructs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from aws_cdk import Stack
from aws_cdk.assertions import Template
from botocore_model import violations
from cfnlint.api import ManualArgs, lint

Resources = Callable[[str], list[dict[str, Any]]]
"""Gives the properties of all resources of a type."""


def the_variant(resources: Resources) -> dict[str, Any]:
    """The only variant of the only endpoint."""
    (config,) = resources("AWS::SageMaker::EndpointConfig")
    (found,) = config["ProductionVariants"]
    return dict(found)


def the_container(resources: Resources) -> dict[str, Any]:
    """The container of the only model."""
    (model,) = resources("AWS::SageMaker::Model")
    return dict(model["PrimaryContainer"])


def statements(stack: Stack, role: str = "EndpointRole") -> list[dict[str, Any]]:
    """The permissions of the role whose logical id begins so."""
    policies = Template.from_stack(stack).find_resources("AWS::IAM::Policy")
    (policy,) = (each for name, each in policies.items() if name.startswith(role))
    return list(policy["Properties"]["PolicyDocument"]["Statement"])


def only(template: Mapping[str, Any], kind: str) -> tuple[str, dict[str, Any]]:
    """The id and the resource of a type, apart from what surrounds an endpoint."""
    ((name, resource),) = (
        (name, each)
        for name, each in template.items()
        if each["Type"] == kind and not name.startswith(("EndpointStart", "EndpointChange"))
    )
    return name, resource


def refusals(stack: Stack) -> list[str]:
    """Return the complaints of the services' own API models and of cfn-lint about a stack."""
    template = Template.from_stack(stack).to_json()
    # The CDK lets a state machine depend on its role in words as well (W3005).
    config = ManualArgs(regions=["eu-west-1", "us-east-1"], ignore_checks=["W3005"])
    found = lint(json.dumps(template), config=config)
    return [*violations(template), *(f"{each.rule.id} {each.message}" for each in found)]
