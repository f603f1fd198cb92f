from __future__ import annotations

import pytest
from aws_cdk import App, Environment, Stack
from aws_cdk import aws_iam as iam
from cdk_nag import AwsSolutionsChecks

from triton_fleet.parts.network.findings import acknowledge_network_interfaces


def _findings(app: App) -> list[tuple[str, str]]:
    app.synth()
    return [
        (violation.rule_name, resource.construct_path)
        for violation in AwsSolutionsChecks(app).validate_scope(app).violations
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


@pytest.mark.parametrize("region", [None, "eu-west-1", "cn-north-1"])
def test_the_interfaces_of_a_role_are_acknowledged_and_nothing_else_of_it(region: str | None) -> None:
    app = App()
    stack = Stack(app, "Fleet", env=Environment(region=region))
    role = _handle_interfaces(stack)
    before = _findings(app)
    role.add_to_policy(iam.PolicyStatement(actions=["ec2:DescribeVpcs"], resources=["*"]))
    acknowledge_network_interfaces(role)

    assert len(before) == 1
    assert [rule for rule, _ in _findings(app)] == ["AwsSolutions-IAM5[Resource::*]"]
