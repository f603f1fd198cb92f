"""The finding of rule packs about permissions for network interfaces, which cannot be avoided."""

from __future__ import annotations

import json
from typing import Any

from aws_cdk import Acknowledgment, Stack, Validations
from aws_cdk import aws_iam as iam

from triton_fleet.parts.arguments.roles import policy_of


def acknowledge_network_interfaces(role: iam.IRole) -> None:
    """Acknowledge that a role may handle network interfaces whose ids are not known before they exist.

    Call it where the statements of an `EndpointNetwork` are added to a role. Which subnets, groups and VPC
    they may be of is limited by those statements.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/host-vpc.html, read on 2026-11-21.
    """
    stack = Stack.of(role)
    interfaces = as_cdk_nag_writes(
        stack.resolve(stack.format_arn(service="ec2", resource="network-interface", resource_name="*"))
    )
    Validations.of(policy_of(role)).acknowledge(
        Acknowledgment(
            id=f"AwsSolutions-IAM5[Resource::{interfaces}]",
            reason="The service creates the network interfaces, so their ids are not known before. The "
            "subnets, the security groups and the VPC that they may be of are.",
        )
    )


def as_cdk_nag_writes(arn: str | dict[str, Any]) -> str:
    """An ARN as cdk-nag writes it: a reference in it is <AWS::Region> or <Bucket.Arn>."""
    match arn:
        case str():
            return arn
        case {"Fn::Join": [delimiter, parts]}:
            return str(delimiter).join(map(as_cdk_nag_writes, parts))
        case {"Fn::GetAtt": parts}:
            return f"<{'.'.join(parts)}>"
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::ImportValue": name}:
            return as_cdk_nag_writes(name)
    return json.dumps(arn, separators=(",", ":"), ensure_ascii=False)
