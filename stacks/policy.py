"""The checks that every synthesis runs, and their findings that were looked at and accepted.

An acceptance is placed on the smallest construct that has the finding, so it never covers another one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from aws_cdk import Acknowledgment, App, Stack, Validations
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from cdk_nag import AwsSolutionsChecks, HIPAASecurityChecks, NagPack, NIST80053R5Checks, PCIDSS321Checks
from constructs import IConstruct

from stacks.inference import InferenceStack
from stacks.models import ModelsStack
from triton_fleet import FleetError, ModelBuilds, ModelRepository
from triton_fleet.repository.processing_builds import job_arns, log_arns
from triton_models.errors import Problem


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


# The packs of cdk-nag that the fleet is held to. The ids of a pack's findings begin with its name here.
PACKS: Mapping[str, Callable[..., NagPack]] = MappingProxyType(
    {
        "AwsSolutions": AwsSolutionsChecks,
        "NIST.800.53.R5": NIST80053R5Checks,
        "HIPAA.Security": HIPAASecurityChecks,
        "PCI.DSS.321": PCIDSS321Checks,
    }
)
_COMPLIANCE = ("NIST.800.53.R5", "HIPAA.Security", "PCI.DSS.321")


def attach(
    app: App, *, models: ModelsStack, inference: InferenceStack, packs: Iterable[str] = ("AwsSolutions",)
) -> None:
    """Let every synthesis fail on a finding of these packs that is not accepted here.

    Args:
        app: The app.
        models: Its stack of models.
        inference: Its stack of inference.
        packs: Names in PACKS. The default is AWS's own advice, which any fleet should follow. The others are
            for whoever has to answer to a standard; the fleet as it is here passes them as well, but they
            would also stop what somebody else adds to it.
    """
    accept(acceptances(models=models, inference=inference))
    accept(compliance_acceptances(models=models, inference=inference))
    Validations.of(app).add_plugins(*(PACKS[name](app, verbose=True) for name in packs))


def synthesise(app: App) -> None:
    """Write the templates, unless a check finds something wrong with them.

    Under the CDK's command line the findings are left to that, which reads the same report.

    Raises:
        FleetError: What the checks found, all of it.
    """
    try:
        app.synth()
    except RuntimeError as error:  # through jsii, every error of the CDK is one
        if not str(error).startswith("ValidationFailed"):
            raise
        report = json.loads((Path(app.outdir) / "validation-report.json").read_text())
        raise FleetError(_findings(report)) from None


def _findings(report: dict[str, Any]) -> Iterator[Problem]:
    for plugin in report["pluginReports"]:
        for violation in plugin["violations"]:
            if violation["severity"] != "warning":
                yield Problem(
                    what=violation["description"],
                    where=", ".join(each["constructPath"] for each in violation["violatingConstructs"]),
                    expected=f"a template in which {plugin['pluginName']} finds nothing",
                    fix="change the resource, or accept the finding with its reason in stacks/policy.py",
                    rule=violation["ruleName"],
                )


def accept(accepted: Iterable[Acceptance]) -> None:
    """Acknowledge findings where they are."""
    for each in accepted:
        Validations.of(each.construct).acknowledge(Acknowledgment(id=each.finding, reason=each.reason))


def acceptances(*, models: ModelsStack, inference: InferenceStack) -> Iterator[Acceptance]:
    """Everything of AwsSolutions that is accepted in the two stacks."""
    yield Acceptance(
        construct=models.repository.bucket,
        finding="AwsSolutions-S1",
        reason="Every instance reads models all day: an access log of that grows without bound. Who read or "
        "wrote an artifact is answered by CloudTrail data events, with the caller's identity.",
    )
    if models.builds is not None:
        yield from _of_builds(models.builds, models.repository)
    policy = _policy_of(inference.endpoint.role)
    # In this stack the bucket is an import; export_value gives the very reference that the role will hold.
    imported = inference.resolve(models.export_value(models.repository.bucket.bucket_arn))
    yield _reads_prefix(policy, imported["Fn::ImportValue"], models.repository.prefix)
    yield Acceptance(
        construct=policy,
        finding="AwsSolutions-IAM5[Resource::*]",
        reason="ecr:GetAuthorizationToken and cloudwatch:PutMetricData know no resources, nor do the actions "
        "that look at a VPC. Pulling is limited to the endpoint's image, and publishing to SageMaker's two "
        "namespaces by a condition.",
    )


def compliance_acceptances(*, models: ModelsStack, inference: InferenceStack) -> Iterator[Acceptance]:
    """Everything of the packs for a standard that is accepted in the two stacks."""
    bucket = models.repository.bucket
    yield from _in_packs(
        bucket,
        "S3BucketLoggingEnabled",
        "Every instance reads models all day: an access log of that grows without bound. Who read or wrote "
        "an artifact is answered by CloudTrail data events, with the caller's identity.",
    )
    yield from _in_packs(
        bucket,
        "S3BucketReplicationEnabled",
        "Every artifact can be built again from its sources, and versions guard against deleting one. A "
        "fleet in another region has a repository of its own, to which the same artifacts are published.",
    )
    if models.builds is not None:
        yield from _of_role_and_logs(models.builds.role, models.builds.node.find_child("Logs"))
        if models.builds.starter_role is not None:
            yield from _of_role(models.builds.starter_role)
        yield from _in_packs(
            models.builds.project,
            "CodeBuildProjectSourceRepoUrl",
            "The source is an archive in S3. There is no GitHub or Bitbucket repository to authenticate to: "
            "the rule asks for OAuth whatever the source is.",
            packs=("HIPAA.Security", "PCI.DSS.321"),
        )
    yield from _of_role_and_logs(inference.endpoint.role, inference.endpoint.log_group)
    yield from _of_alarms(inference)


def _of_role(role: iam.Role) -> Iterator[Acceptance]:
    yield from _in_packs(
        _policy_of(role),
        "IAMNoInlinePolicy",
        "The policy is of this role alone: it names the role's own resources, cannot be attached to another "
        "principal by mistake, and goes when the role goes.",
    )


def _of_role_and_logs(role: iam.Role, log_group: IConstruct) -> Iterator[Acceptance]:
    yield from _of_role(role)
    yield from _in_packs(
        log_group,
        "CloudWatchLogGroupEncrypted",
        "CloudWatch encrypts every log group with a key of its own. What is written is loading, unloading "
        "and building of models: verbose logging, which would hold requests, is off.",
    )


def _of_alarms(inference: InferenceStack) -> Iterator[Acceptance]:
    for alarm in inference.alarms.alarms.values():
        resource = alarm.node.default_child
        assert isinstance(resource, cloudwatch.CfnAlarm)  # noqa: S101 -- that is what an alarm is made of
        if not inference.resolve(resource.alarm_actions):
            yield from _in_packs(
                alarm,
                "CloudWatchAlarmAction",
                "An alarm that pages does so through the composite alarm, once for all of them. A ticket "
                "goes to the address in alarm_email; a fleet without one is looked at on its dashboard.",
                packs=("NIST.800.53.R5", "HIPAA.Security"),
            )


def _in_packs(
    construct: IConstruct, rule: str, reason: str, *, packs: Iterable[str] = _COMPLIANCE
) -> Iterator[Acceptance]:
    """The acceptance of a finding that several packs have under the same name."""
    for pack in packs:
        yield Acceptance(construct=construct, finding=f"{pack}-{rule}", reason=reason)


def _of_builds(builds: ModelBuilds, repository: ModelRepository) -> Iterator[Acceptance]:
    policy = _policy_of(builds.role)
    stack = Stack.of(builds)
    bucket = stack.resolve(repository.bucket.bucket_arn)["Fn::GetAtt"][0]
    yield _reads_prefix(policy, f"<{bucket}.Arn>", repository.prefix)
    yield Acceptance(
        construct=policy,
        finding="AwsSolutions-IAM5[Resource::*]",
        reason="ecr:GetAuthorizationToken knows no resources, nor does cloudwatch:PutMetricData, which a "
        "Processing job has. Pulling is limited to the Triton image, and metrics to SageMaker's namespace.",
    )
    if builds.starter_role is not None:
        yield from _of_jobs(builds, builds.starter_role)
        return
    yield Acceptance(
        construct=builds.project,
        finding="AwsSolutions-CB5",
        reason="The image has to be the one that serves the models: a TensorRT plan loads only in the "
        "version that compiled it, and a Python model's packages in that of Python. It is AWS's own, from "
        "the registry of the region.",
    )


def _of_jobs(builds: ModelBuilds, starter: iam.Role) -> Iterator[Acceptance]:
    """Of builds as Processing jobs: their names are made when they start."""
    every_stream, own_streams = log_arns(builds)
    for role, arn, reason in (
        (starter, job_arns(builds), "A job is named when it starts. Its name begins with this project's."),
        (starter, every_stream, "SageMaker gives all jobs one log group, and CloudWatch searches it whole."),
        (builds.role, every_stream, "SageMaker gives all jobs one log group, and lists its streams whole."),
        (builds.role, own_streams, "A job's log stream is named when it starts, after the job's name."),
    ):
        told = _as_told(Stack.of(builds).resolve(arn))
        yield Acceptance(
            construct=_policy_of(role), finding=f"AwsSolutions-IAM5[Resource::{told}]", reason=reason
        )


def _as_told(arn: str | dict[str, Any]) -> str:
    """An ARN as cdk-nag tells it: a reference in it is <AWS::Region>."""
    parts = [arn] if isinstance(arn, str) else arn["Fn::Join"][1]
    return "".join(part if isinstance(part, str) else f"<{part['Ref']}>" for part in parts)


def _reads_prefix(policy: IConstruct, bucket: str, prefix: str) -> Acceptance:
    return Acceptance(
        construct=policy,
        finding=f"AwsSolutions-IAM5[Resource::{bucket}/{prefix}*]",
        reason="The artifacts of the repository are not known at deployment: models are added by uploading "
        "them. The role reaches their prefix and nothing beside it.",
    )


def _policy_of(role: iam.Role) -> IConstruct:
    return role.node.find_child("DefaultPolicy")
