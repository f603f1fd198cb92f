from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from aws_cdk import App, Environment, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from cdk_nag import (
    AwsSolutionsChecks,
    HIPAASecurityChecks,
    NagPack,
    NIST80053R4Checks,
    NIST80053R5Checks,
    PCIDSS321Checks,
)

from triton_fleet import ModelRepository, MultiModelEndpoint
from triton_fleet.hosting.compliance import acknowledge_local_storage
from triton_fleet.network.findings import acknowledge_network_interfaces
from triton_models.facts.instances import instance_type

KEY_PACKS = (HIPAASecurityChecks, NIST80053R4Checks, NIST80053R5Checks, PCIDSS321Checks)


@pytest.fixture
def config(stack: Stack) -> sagemaker.CfnEndpointConfig:
    """An endpoint configuration without a key."""
    return _config(stack, "Config")


def _config(stack: Stack, construct_id: str) -> sagemaker.CfnEndpointConfig:
    return sagemaker.CfnEndpointConfig(
        stack,
        construct_id,
        production_variants=[
            sagemaker.CfnEndpointConfig.ProductionVariantProperty(
                variant_name="AllTraffic", model_name="model", instance_type="ml.g5.xlarge"
            )
        ],
    )


def _findings(app: App, packs: Iterable[Callable[..., NagPack]]) -> list[tuple[str, str]]:
    app.synth()
    return [
        (violation.rule_name, resource.construct_path)
        for pack in packs
        for violation in pack(app).validate_scope(app).violations
        for resource in violation.violating_resources
    ]


def _handle_interfaces(stack: Stack) -> iam.Role:
    role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
    role.add_to_policy(
        iam.PolicyStatement(
            actions=["ec2:CreateNetworkInterface"],
            resources=[stack.format_arn(service="ec2", resource="network-interface", resource_name="*")],
        )
    )
    return role


def test_every_pack_asks_for_a_key(app: App, config: sagemaker.CfnEndpointConfig) -> None:
    found = _findings(app, KEY_PACKS)

    assert len(found) == 4
    assert all(rule.endswith("SageMakerEndpointConfigurationKMSKeyConfigured") for rule, _ in found)


def test_no_key_is_asked_for_where_sagemaker_refuses_one(
    app: App, config: sagemaker.CfnEndpointConfig
) -> None:
    acknowledge_local_storage(config, instances=[instance_type("ml.g5.xlarge")])

    assert _findings(app, KEY_PACKS) == []


@pytest.mark.parametrize("name", ["ml.p3.2xlarge", "ml.m5.xlarge"])
def test_a_key_is_still_asked_for_where_one_can_be_given(
    name: str, app: App, config: sagemaker.CfnEndpointConfig
) -> None:
    acknowledge_local_storage(config, instances=[instance_type(name)])

    assert len(_findings(app, KEY_PACKS)) == 4


@pytest.mark.parametrize(("name", "findings"), [("ml.g4dn.xlarge", 0), ("ml.p3.2xlarge", 4)])
def test_an_endpoint_acknowledges_for_itself_and_only_where_sagemaker_refuses(
    name: str, findings: int, app: App, stack: Stack, repository: ModelRepository
) -> None:
    MultiModelEndpoint(stack, "Endpoint", repository=repository, instance_type=name, release="24.09")
    found = [path for rule, path in _findings(app, KEY_PACKS) if "SageMakerEndpoint" in rule]

    assert found == ["Fleet/Endpoint/Config"] * findings


def test_one_variant_with_local_storage_is_enough(app: App, config: sagemaker.CfnEndpointConfig) -> None:
    acknowledge_local_storage(
        config, instances=[instance_type("ml.p3.2xlarge"), instance_type("ml.g5.xlarge")]
    )

    assert _findings(app, KEY_PACKS) == []


def test_another_configuration_is_not_covered(
    app: App, stack: Stack, config: sagemaker.CfnEndpointConfig
) -> None:
    _config(stack, "Other")
    acknowledge_local_storage(config, instances=[instance_type("ml.g5.xlarge")])

    assert {path for _, path in _findings(app, KEY_PACKS)} == {"Fleet/Other"}


@pytest.mark.parametrize("region", [None, "eu-west-1", "cn-north-1"])
def test_the_interfaces_of_a_role_are_acknowledged_and_nothing_else_of_it(region: str | None) -> None:
    app = App()
    stack = Stack(app, "Fleet", env=Environment(region=region))
    role = _handle_interfaces(stack)
    before = _findings(app, [AwsSolutionsChecks])
    role.add_to_policy(iam.PolicyStatement(actions=["ec2:DescribeVpcs"], resources=["*"]))
    acknowledge_network_interfaces(role)

    assert len(before) == 1
    assert [rule for rule, _ in _findings(app, [AwsSolutionsChecks])] == ["AwsSolutions-IAM5[Resource::*]"]
