"""The checks that every synthesis runs, and their findings that were looked at and accepted.

An acceptance is placed on the smallest construct that has the finding, so it never covers another one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aws_cdk import Acknowledgment, App, Stack, Validations
from aws_cdk import aws_iam as iam
from cdk_nag import AwsSolutionsChecks
from constructs import IConstruct

from stacks.inference import InferenceStack
from stacks.models import ModelsStack
from triton_fleet import FleetError, ModelBuilds, ModelRepository
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


def attach(app: App, *, models: ModelsStack, inference: InferenceStack) -> None:
    """Let every synthesis fail on a finding of cdk-nag's AwsSolutions that is not accepted here."""
    accept(acceptances(models=models, inference=inference))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app, verbose=True))


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
    """Everything that is accepted in the two stacks."""
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
        reason="ecr:GetAuthorizationToken and cloudwatch:PutMetricData know no resources. Pulling is limited "
        "to the Triton image, publishing to SageMaker's two namespaces by a condition.",
    )


def _of_builds(builds: ModelBuilds, repository: ModelRepository) -> Iterator[Acceptance]:
    policy = _policy_of(builds.role)
    stack = Stack.of(builds)
    bucket = stack.resolve(repository.bucket.bucket_arn)["Fn::GetAtt"][0]
    yield _reads_prefix(policy, f"<{bucket}.Arn>", repository.prefix)
    yield Acceptance(
        construct=policy,
        finding="AwsSolutions-IAM5[Resource::*]",
        reason="ecr:GetAuthorizationToken knows no resources. Pulling is limited to the Triton image.",
    )
    yield Acceptance(
        construct=builds.project,
        finding="AwsSolutions-CB5",
        reason="The image has to be the one that serves the models: a TensorRT plan loads only in the "
        "version that compiled it. It is AWS's own, from the registry of the region.",
    )


def _reads_prefix(policy: IConstruct, bucket: str, prefix: str) -> Acceptance:
    return Acceptance(
        construct=policy,
        finding=f"AwsSolutions-IAM5[Resource::{bucket}/{prefix}*]",
        reason="The artifacts of the repository are not known at deployment: models are added by uploading "
        "them. The role reaches their prefix and nothing beside it.",
    )


def _policy_of(role: iam.Role) -> IConstruct:
    return role.node.find_child("DefaultPolicy")
