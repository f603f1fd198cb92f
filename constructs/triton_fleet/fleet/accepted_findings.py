"""Findings of cdk-nag that are right about a resource, and why the resource stays as it is.

An acceptance is placed on the smallest construct that has the finding, so it never covers another one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from aws_cdk import Acknowledgment, Stack, Validations
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from constructs import IConstruct

from triton_fleet.endpoint.multi_model import MultiModelEndpoint
from triton_fleet.operations.alarms import EndpointAlarms
from triton_fleet.operations.rollback import GreenFleetAlarms, RollbackAlarms
from triton_fleet.operations.warm_up import EndpointWarmUp
from triton_fleet.repository.model_repository import ModelRepository
from triton_fleet.scaling.alias import EndpointAlias
from triton_models.repository.documents import REQUESTS

COMPLIANCE = ("NIST.800.53.R5", "HIPAA.Security", "PCI.DSS.321")


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


def of_role(role: iam.IRole) -> Iterator[Acceptance]:
    """The acceptance of a role's own policy."""
    yield from in_packs(
        policy_of(role),
        "IAMNoInlinePolicy",
        "The policy is of this role alone: it names the role's own resources, cannot be attached to another "
        "principal by mistake, and goes when the role goes.",
    )


def of_role_and_logs(role: iam.IRole, log_group: IConstruct) -> Iterator[Acceptance]:
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
    yield from of_role(endpoint.role)


def in_alias(alias: EndpointAlias) -> Iterator[Acceptance]:
    """Accepted findings of what reads the size of the endpoint that a new one takes over from."""
    for arn in alias._endpoint_arns:
        yield pattern(
            policy_of(alias.endpoint._change.function.role),
            arn,
            "The endpoint that the alias names by then is not known at synthesis. The action describes "
            "endpoints of this fleet and changes nothing.",
        )


def in_alarms(
    alarms: EndpointAlarms, rollback: Iterable[RollbackAlarms | GreenFleetAlarms]
) -> Iterator[Acceptance]:
    """Accepted findings of alarms that notify no one themselves."""
    packs = ("NIST.800.53.R5", "HIPAA.Security")
    for each in rollback:
        for alarm in each.alarms.values():
            yield from in_packs(
                alarm,
                "CloudWatchAlarmAction",
                "SageMaker reads the alarm while it updates the endpoint, and undoes the update for it. At "
                "any other time the alarms that page look at the same errors.",
                packs=packs,
            )
    for alarm in alarms.alarms.values():
        resource = alarm.node.default_child
        assert isinstance(resource, cloudwatch.CfnAlarm)  # noqa: S101 -- an alarm consists of it
        if not Stack.of(alarms).resolve(resource.alarm_actions):
            yield from in_packs(
                alarm,
                "CloudWatchAlarmAction",
                "An alarm that pages does so through the composite alarm, once for all of them. A ticket "
                "goes to the topic of the alarms; a fleet without one is looked at on its dashboard.",
                packs=packs,
            )
