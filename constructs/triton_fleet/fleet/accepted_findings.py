"""Findings of cdk-nag that are right about a resource, and why the resource stays as it is.

An acceptance is placed on the smallest construct that has the finding, so it never covers another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from aws_cdk import Acknowledgment, Stack, Validations
from aws_cdk import aws_iam as iam
from constructs import IConstruct

from triton_fleet.builds.build_runs import BuildRuns
from triton_fleet.builds.model_build_project import ModelBuildProject
from triton_fleet.builds.processing_jobs import job_arns, log_arns
from triton_fleet.builds.working_folder import runs as runs_folder
from triton_fleet.builds.working_folder import timing_cache
from triton_fleet.endpoint.functions.automatic_builds import AutomaticBuilds
from triton_fleet.endpoint.functions.deployment_build import DeploymentBuild
from triton_fleet.endpoint.multi_model import MultiModelEndpoint
from triton_fleet.operations.scaling.alias import EndpointAlias
from triton_fleet.operations.signals import ModelSignals
from triton_fleet.operations.warm_up import EndpointWarmUp
from triton_fleet.parts.arguments.roles import policy_of
from triton_fleet.parts.network.findings import as_cdk_nag_writes
from triton_fleet.parts.repository.model_repository import ModelRepository
from triton_models.repository.manifest import REQUESTS

_NAMED_LATER = (
    "The objects in this folder get their names when a build runs. The role has no access outside the folder."
)
_LOGGED = (
    "Every instance reads models all day: an access log of that grows without bound. Who read or wrote an "
    "artifact is answered by CloudTrail data events, with the caller's identity."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """An accepted finding, with the reason for the review of the next change."""

    construct: IConstruct
    finding: str  # the rule's id, with the detail in brackets where the rule gives one
    reason: str


def pattern(policy: IConstruct, arn: str, reason: str) -> Acceptance:
    """The acceptance of a resource with a star in it."""
    written = as_cdk_nag_writes(Stack.of(policy).resolve(arn))
    return Acceptance(construct=policy, finding=f"AwsSolutions-IAM5[Resource::{written}]", reason=reason)


def reads(policy: IConstruct, repository: ModelRepository, *, below: str = "") -> Acceptance:
    """The acceptance of reading a repository, or what is below a prefix in it."""
    bucket = _bucket_arn(repository, policy)
    return Acceptance(
        construct=policy,
        finding=f"AwsSolutions-IAM5[Resource::{bucket}/{repository.prefix}{below}*]",
        reason="The artifacts of the repository are not known at deployment: models are added by uploading "
        "them. The role reaches their prefix and nothing else.",
    )


def accept(accepted: Iterable[Acceptance]) -> None:
    """Acknowledge findings where they are."""
    for each in accepted:
        Validations.of(each.construct).acknowledge(Acknowledgment(id=each.finding, reason=each.reason))


def _bucket_arn(repository: ModelRepository, seen_from: IConstruct) -> str:
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
    policy = policy_of(warm_up.function.role)
    yield reads(policy, warm_up.endpoint.repository, below=f"{REQUESTS}/")
    if warm_up.hot:
        yield pattern(policy, "*", "cloudwatch:GetMetricStatistics has no resource-level permissions.")


def in_signals(signals: ModelSignals) -> Iterator[Acceptance]:
    """Accepted findings of what reads the signals of clients."""
    policy, repository = policy_of(signals.function.role), signals.repository
    bucket = _bucket_arn(repository, policy)
    yield Acceptance(
        construct=policy,
        finding=f"AwsSolutions-IAM5[Resource::{bucket}/{repository.signals_prefix}*]",
        reason="Clients name the objects. The role reads nothing else.",
    )
    yield pattern(
        policy, "*", "cloudwatch:PutMetricData has no resources. A condition limits it to one namespace."
    )


def in_endpoint(endpoint: MultiModelEndpoint, repository: ModelRepository) -> Iterator[Acceptance]:
    """Accepted findings of an endpoint's role, and of what starts the endpoint."""
    policy = policy_of(endpoint.role)
    yield reads(policy, repository)
    yield pattern(
        policy_of(endpoint._start.function.role),
        endpoint._start.written_arn,
        "The star stands for the streams of one log group: without it the permission is for none of them.",
    )
    yield pattern(
        policy,
        "*",
        "ecr:GetAuthorizationToken, cloudwatch:PutMetricData and the actions that describe a VPC have "
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


def in_repository(repository: ModelRepository) -> Iterator[Acceptance]:
    """Accepted findings of a repository's own bucket."""
    if not repository.owned:
        return
    yield Acceptance(construct=repository.bucket, finding="AwsSolutions-S1", reason=_LOGGED)


def in_builds(
    builds: ModelBuildProject, runs: BuildRuns | None, deployment_build: DeploymentBuild | None
) -> Iterator[Acceptance]:
    """Accepted findings of builds, and of what starts them."""
    yield from _of_builds(builds)
    if runs is not None or deployment_build is not None:
        yield pattern(policy_of(builds.role), runs_folder(builds.repository).objects_arn, _NAMED_LATER)
    if runs is not None:
        yield from _of_runs(runs)
    if builds.network is not None:
        yield from _of_network([builds.starter_role, runs.step_role if runs is not None else None])
    if deployment_build is not None:
        yield from _of_deployment_build(deployment_build, builds, runs)


def in_automatic_builds(automatic: AutomaticBuilds) -> Iterator[Acceptance]:
    """Accepted findings of what starts runs."""
    yield Acceptance(
        construct=automatic.queue,
        finding="AwsSolutions-SQS3",
        reason="A request has nothing to keep. One that starts no run is tried again for 14 days, and each "
        "try that fails is an error of the function.",
    )


def _of_builds(builds: ModelBuildProject) -> Iterator[Acceptance]:
    policy, repository = policy_of(builds.role), builds.repository
    yield reads(policy, repository)
    yield from _of_weights(policy, builds)
    if builds.gpu is not None:
        yield pattern(policy, timing_cache(repository).objects_arn, _NAMED_LATER)
    yield pattern(
        policy,
        "*",
        "ecr:GetAuthorizationToken has no resources, nor has cloudwatch:PutMetricData, which a "
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


def _of_jobs(builds: ModelBuildProject, starter: iam.Role) -> Iterator[Acceptance]:
    """Of builds as Processing jobs: their names are made when they start."""
    every_stream, own_streams = log_arns(builds)
    for role, arn, reason in (
        (starter, job_arns(builds), "A job is named when it starts. Its name begins with this project's."),
        (starter, every_stream, "SageMaker gives all jobs one log group, and CloudWatch searches all of it."),
        (builds.role, every_stream, "SageMaker gives all jobs one log group, and lists all its streams."),
        (builds.role, own_streams, "A job's log stream is named when it starts, after the job's name."),
    ):
        yield pattern(policy_of(role), arn, reason)


def _of_network(roles: Iterable[iam.Role | None]) -> Iterator[Acceptance]:
    """Of roles of small projects in a VPC; those of builds have the same finding for another reason."""
    for role in roles:
        if role is not None:
            yield pattern(
                policy_of(role),
                "*",
                "CodeBuild asks for the actions that describe a VPC and create a network interface "
                "on every resource. It attaches the interface to the subnets of the builds only.",
            )


def _of_weights(policy: IConstruct, builds: ModelBuildProject) -> Iterator[Acceptance]:
    for arn in builds._inputs.prefix_arns(builds):
        yield pattern(
            policy,
            arn,
            "The objects under the prefix are named by declarations. The role reads nothing else.",
        )


def _of_runs(found: BuildRuns) -> Iterator[Acceptance]:
    """Of a state machine whose runs, and the builds in them, are named when they start."""
    repository, step, machine = found.folder.repository, policy_of(found.step_role), policy_of(found.role)
    yield reads(step, repository)
    yield pattern(step, found.folder.objects_arn, _NAMED_LATER)
    yield from _of_weights(step, found.builds)
    yield pattern(machine, found.items_arn, _NAMED_LATER)
    yield pattern(
        machine,
        "*",
        "The actions with which Step Functions has its log delivered have no resources. What is "
        "logged goes to the construct's own group.",
    )
    children = found.node.find_child("Children")
    for arn in found.execution_arns:
        yield pattern(
            children, arn, "An execution is named when it starts, after its state machine or its map."
        )
    yield Acceptance(
        construct=found.state_machine,
        finding="AwsSolutions-SF2",
        reason="A run has three kinds of steps, each a build with a log of its own, and its history shows "
        "how long each took: a trace would show the same once more.",
    )


def _of_deployment_build(
    build: DeploymentBuild, builds: ModelBuildProject, runs: BuildRuns | None
) -> Iterator[Acceptance]:
    policy = policy_of(build.function.role)
    yield pattern(policy, runs_folder(builds.repository).objects_arn, _NAMED_LATER)
    if runs is not None:
        every = runs.execution_arns[-1]
        yield pattern(policy, every, "An execution is named when it starts, after the deployment's request.")
    yield pattern(
        policy, "*", "Service Quotas limits reading to no resource. The function may change no quota."
    )
