"""Findings of cdk-nag that are right about a resource, and why the resource stays as it is.

An acceptance is placed on the smallest construct that has the finding, so it never covers another one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from aws_cdk import Acknowledgment, Stack, Validations
from aws_cdk import aws_iam as iam
from constructs import IConstruct

from triton_fleet.endpoint.multi_model import MultiModelEndpoint
from triton_fleet.operations.scaling.alias import EndpointAlias
from triton_fleet.operations.warm_up import EndpointWarmUp
from triton_fleet.parts.repository.model_repository import ModelRepository
from triton_models.repository.documents import REQUESTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """An accepted finding.

    Attributes:
        construct: The construct with the finding.
        finding: The rule's id, with the detail in brackets where the rule gives one.
        reason: The reason for accepting it, for the review of the next change.
    """

    construct: IConstruct
    finding: str
    reason: str


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


def policy_of(role: iam.IRole) -> IConstruct:
    """The policy that a role has of its own; of an immutable one, the role, which has no findings."""
    return next((each for each in role.node.children if isinstance(each, iam.Policy)), role)


def accept(accepted: Iterable[Acceptance]) -> None:
    """Acknowledge findings where they are."""
    for each in accepted:
        Validations.of(each.construct).acknowledge(Acknowledgment(id=each.finding, reason=each.reason))


def bucket_arn(repository: ModelRepository, seen_from: IConstruct) -> str:
    """The ARN of a repository's bucket as cdk-nag writes it in the stack of another construct."""
    owner, stack = Stack.of(repository), Stack.of(seen_from)
    arn = repository.bucket.bucket_arn
    if not repository.owned:
        return as_cdk_nag_writes(stack.resolve(arn))
    if owner is stack:
        return f"<{stack.resolve(arn)['Fn::GetAtt'][0]}.Arn>"
    # There the bucket is an import; export_value gives the very reference that the role will hold.
    return as_cdk_nag_writes(stack.resolve(owner.export_value(arn)))


def in_warm_up(warm_up: EndpointWarmUp) -> Iterator[Acceptance]:
    """Accepted findings of a warm-up that reads the requests of builds."""
    repository = warm_up.endpoint.repository
    policy = policy_of(warm_up.function.role)
    yield reads_prefix(policy, bucket_arn(repository, warm_up), f"{repository.prefix}{REQUESTS}/")


def in_endpoint(endpoint: MultiModelEndpoint, repository: ModelRepository) -> Iterator[Acceptance]:
    """Accepted findings of an endpoint's role, and of what starts the endpoint."""
    policy = policy_of(endpoint.role)
    yield reads_prefix(policy, bucket_arn(repository, endpoint), repository.prefix)
    yield pattern(
        policy_of(endpoint._start.function.role),
        endpoint._start.written_arn,
        "The star stands for the streams of one log group: without it the permission is for none of them.",
    )
    yield Acceptance(
        construct=policy,
        finding="AwsSolutions-IAM5[Resource::*]",
        reason="ecr:GetAuthorizationToken, cloudwatch:PutMetricData and the actions that describe a VPC have "
        "no resource-level permissions. Pulling is limited to the endpoint's image, and publishing to "
        "SageMaker's two namespaces by a condition.",
    )


def in_alias(alias: EndpointAlias) -> Iterator[Acceptance]:
    """Accepted findings of what reads the size of the endpoint that a new one takes over from."""
    for arn in alias._endpoint_arns:
        yield pattern(
            policy_of(alias.endpoint._change.function.role),
            arn,
            "The endpoint that the alias names by then is not known at synthesis. The action describes "
            "endpoints of this fleet and changes nothing.",
        )
