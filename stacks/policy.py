"""The checks that every synthesis runs, and their findings that were looked at and accepted.

An acceptance is placed on the smallest construct that has the finding, so it never covers another one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from aws_cdk import Acknowledgment, App, Validations
from aws_cdk import aws_cloudwatch as cloudwatch
from cdk_nag import AwsSolutionsChecks, HIPAASecurityChecks, NagPack, NIST80053R5Checks, PCIDSS321Checks
from constructs import IConstruct

from stacks.acceptance import (
    Acceptance,
    as_cdk_nag_writes,
    in_packs,
    of_role,
    pattern,
    policy_of,
    reads_prefix,
)
from stacks.build_policy import build_acceptances, build_compliance_acceptances
from stacks.inference import InferenceStack
from stacks.models import ModelsStack
from triton_fleet.arguments.late import defer
from triton_models.base.errors import Problem, raise_if_any

# The packs of cdk-nag that the fleet is held to. The ids of a pack's findings begin with its name here.
PACKS: Mapping[str, Callable[..., NagPack]] = MappingProxyType(
    {
        "AwsSolutions": AwsSolutionsChecks,
        "NIST.800.53.R5": NIST80053R5Checks,
        "HIPAA.Security": HIPAASecurityChecks,
        "PCI.DSS.321": PCIDSS321Checks,
    }
)


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
    found: list[Problem] = []
    with defer() as late:
        try:
            app.synth()
        except RuntimeError as error:  # through jsii, every error of the CDK is one
            if not str(error).startswith("ValidationFailed"):
                raise
            report = json.loads((Path(app.outdir) / "validation-report.json").read_text())
            found += _findings(report)
    raise_if_any([*(problem for each in late for problem in each.problems), *found])


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
    if models.repository.owned:
        yield Acceptance(
            construct=models.repository.bucket,
            finding="AwsSolutions-S1",
            reason="Every instance reads models all day: an access log of that grows without bound. Who read "
            "or wrote an artifact is answered by CloudTrail data events, with the caller's identity.",
        )
    yield from build_acceptances(models)
    policy = policy_of(inference.endpoint.role)
    yield reads_prefix(policy, _bucket_there(models, inference), models.repository.prefix)
    start = inference.endpoint.start
    yield pattern(
        policy_of(start.function.role),
        start.written_arn,
        "The star stands for the streams of one log group: without it the permission is for none of them.",
    )
    yield Acceptance(
        construct=policy,
        finding="AwsSolutions-IAM5[Resource::*]",
        reason="ecr:GetAuthorizationToken and cloudwatch:PutMetricData know no resources, nor do the actions "
        "that look at a VPC. Pulling is limited to the endpoint's image, and publishing to SageMaker's two "
        "namespaces by a condition.",
    )


def compliance_acceptances(*, models: ModelsStack, inference: InferenceStack) -> Iterator[Acceptance]:
    """Everything of the packs for a standard that is accepted in the two stacks."""
    if models.repository.owned:
        yield from _of_bucket(models.repository.bucket)
    yield from build_compliance_acceptances(models)
    yield from of_role(inference.endpoint.role)
    yield from _of_alarms(inference)


def _of_bucket(bucket: IConstruct) -> Iterator[Acceptance]:
    yield from in_packs(
        bucket,
        "S3BucketLoggingEnabled",
        "Every instance reads models all day: an access log of that grows without bound. Who read or wrote "
        "an artifact is answered by CloudTrail data events, with the caller's identity.",
    )
    yield from in_packs(
        bucket,
        "S3BucketReplicationEnabled",
        "Every artifact can be built again from its sources, and versions guard against deleting one. A "
        "fleet in another region has a repository of its own, to which the same artifacts are published.",
    )


def _bucket_there(models: ModelsStack, inference: InferenceStack) -> str:
    """The ARN of the models' bucket as cdk-nag shows it in the other stack."""
    arn = models.repository.bucket.bucket_arn
    if not models.repository.owned:
        return as_cdk_nag_writes(inference.resolve(arn))
    # In this stack the bucket is an import; export_value gives the very reference that the role will hold.
    return str(inference.resolve(models.export_value(arn))["Fn::ImportValue"])


def _of_alarms(inference: InferenceStack) -> Iterator[Acceptance]:
    for each in inference.rollback:
        for alarm in each.alarms.values():
            yield from in_packs(
                alarm,
                "CloudWatchAlarmAction",
                "SageMaker reads the alarm while it updates the endpoint, and undoes the update for it. At "
                "any other time the alarms that page look at the same errors.",
                packs=("NIST.800.53.R5", "HIPAA.Security"),
            )
    for alarm in inference.alarms.alarms.values():
        resource = alarm.node.default_child
        assert isinstance(resource, cloudwatch.CfnAlarm)  # noqa: S101 -- an alarm consists of it
        if not inference.resolve(resource.alarm_actions):
            yield from in_packs(
                alarm,
                "CloudWatchAlarmAction",
                "An alarm that pages does so through the composite alarm, once for all of them. A ticket "
                "goes to the address in alarm_email; a fleet without one is looked at on its dashboard.",
                packs=("NIST.800.53.R5", "HIPAA.Security"),
            )
