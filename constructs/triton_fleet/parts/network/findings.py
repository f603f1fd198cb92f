"""The finding of rule packs about permissions for network interfaces, which cannot be avoided."""

from __future__ import annotations

from typing import Any

from aws_cdk import Acknowledgment, Stack, Validations
from aws_cdk import aws_iam as iam


def acknowledge_network_interfaces(role: iam.IRole) -> None:
    """Acknowledge that a role may handle network interfaces whose ids are not known before they exist.

    Call it where the statements of an `EndpointNetwork` are added to a role. Which subnets, groups and VPC
    they may be of is limited by those statements.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/host-vpc.html, read on 2026-11-21.
    """
    stack = Stack.of(role)
    interfaces = _as_reported(
        stack.resolve(stack.format_arn(service="ec2", resource="network-interface", resource_name="*"))
    )
    policy = next(each for each in role.node.children if isinstance(each, iam.Policy))
    Validations.of(policy).acknowledge(
        Acknowledgment(
            id=f"AwsSolutions-IAM5[Resource::{interfaces}]",
            reason="The service creates the network interfaces, so their ids are not known before. The "
            "subnets, the security groups and the VPC that they may be of are.",
        )
    )


def _as_reported(resolved: Any) -> str:
    """An ARN as a finding writes it: a reference becomes its target in angle brackets."""
    parts = resolved["Fn::Join"][1] if isinstance(resolved, dict) else [resolved]
    return "".join(part if isinstance(part, str) else f"<{part['Ref']}>" for part in parts)
