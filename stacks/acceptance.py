"""Findings of the checks that were looked at and accepted: what one is, and those that many roles have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import IConstruct

COMPLIANCE = ("NIST.800.53.R5", "HIPAA.Security", "PCI.DSS.321")


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """A finding that is right about the resource, and why the resource stays as it is.

    Attributes:
        construct: Where the finding is.
        finding: The rule's id, with the detail in brackets where the rule gives one.
        reason: Why it is accepted, for whoever reviews the next change.
    """

    construct: IConstruct
    finding: str
    reason: str


def of_role(role: iam.Role) -> Iterator[Acceptance]:
    """The acceptance of a role's own policy."""
    yield from in_packs(
        policy_of(role),
        "IAMNoInlinePolicy",
        "The policy is of this role alone: it names the role's own resources, cannot be attached to another "
        "principal by mistake, and goes when the role goes.",
    )


def of_role_and_logs(role: iam.Role, log_group: IConstruct) -> Iterator[Acceptance]:
    """The acceptances of a role's own policy and of a log group."""
    yield from of_role(role)
    yield from in_packs(
        log_group,
        "CloudWatchLogGroupEncrypted",
        "CloudWatch encrypts every log group with a key of its own. What is written is loading, unloading "
        "and building of models: verbose logging, which would hold requests, is off.",
    )


def in_packs(
    construct: IConstruct, rule: str, reason: str, *, packs: Iterable[str] = COMPLIANCE
) -> Iterator[Acceptance]:
    """The acceptance of a finding that several packs have under the same name."""
    for pack in packs:
        yield Acceptance(construct=construct, finding=f"{pack}-{rule}", reason=reason)


def as_cdk_nag_writes(arn: str | dict[str, Any]) -> str:
    """An ARN as cdk-nag writes it: a reference in it is <AWS::Region> or <Bucket.Arn>."""
    parts = [arn] if isinstance(arn, str) else arn["Fn::Join"][1]
    return "".join(part if isinstance(part, str) else f"<{_referred(part)}>" for part in parts)


def _referred(reference: dict[str, Any]) -> str:
    found = reference["Ref"] if "Ref" in reference else ".".join(reference["Fn::GetAtt"])
    return str(found)


def pattern(policy: IConstruct, arn: str, reason: str) -> Acceptance:
    """The acceptance of a resource with a star in it."""
    written = as_cdk_nag_writes(Stack.of(policy).resolve(arn))
    return Acceptance(construct=policy, finding=f"AwsSolutions-IAM5[Resource::{written}]", reason=reason)


def reads_prefix(policy: IConstruct, bucket: str, prefix: str) -> Acceptance:
    """The acceptance of reading a repository."""
    return Acceptance(
        construct=policy,
        finding=f"AwsSolutions-IAM5[Resource::{bucket}/{prefix}*]",
        reason="The artifacts of the repository are not known at deployment: models are added by uploading "
        "them. The role reaches their prefix and nothing else.",
    )


def policy_of(role: iam.Role) -> IConstruct:
    """The policy that a role has of its own."""
    return role.node.find_child("DefaultPolicy")
