"""Findings of cdk-nag that are accepted about a repository and what builds models for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aws_cdk import aws_iam as iam
from constructs import IConstruct

from triton_fleet.builds.build_runs import BuildRuns
from triton_fleet.builds.model_build_project import ModelBuildProject
from triton_fleet.builds.processing_jobs import job_arns, log_arns
from triton_fleet.builds.working_folder import runs as runs_folder
from triton_fleet.builds.working_folder import timing_cache
from triton_fleet.endpoint.functions.deployment_build import DeploymentBuild
from triton_fleet.fleet.accepted_findings import Acceptance, bucket_arn, pattern, policy_of, reads_prefix
from triton_fleet.parts.repository.model_repository import ModelRepository

_NAMED_LATER = (
    "The objects in this folder get their names when a build runs. The role has no access outside the folder."
)
_LOGGED = (
    "Every instance reads models all day: an access log of that grows without bound. Who read or wrote an "
    "artifact is answered by CloudTrail data events, with the caller's identity."
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


def _of_builds(builds: ModelBuildProject) -> Iterator[Acceptance]:
    policy, repository = policy_of(builds.role), builds.repository
    yield reads_prefix(policy, bucket_arn(repository, builds), repository.prefix)
    yield from _of_weights(policy, builds)
    if builds.gpu is not None:
        yield pattern(policy, timing_cache(repository).objects_arn, _NAMED_LATER)
    yield Acceptance(
        construct=policy,
        finding="AwsSolutions-IAM5[Resource::*]",
        reason="ecr:GetAuthorizationToken has no resources, nor has cloudwatch:PutMetricData, which a "
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
            yield Acceptance(
                construct=policy_of(role),
                finding="AwsSolutions-IAM5[Resource::*]",
                reason="CodeBuild asks for the actions that describe a VPC and create a network interface "
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
    yield reads_prefix(step, bucket_arn(repository, found), repository.prefix)
    yield pattern(step, found.folder.objects_arn, _NAMED_LATER)
    yield from _of_weights(step, found.builds)
    yield pattern(machine, found.items_arn, _NAMED_LATER)
    yield Acceptance(
        construct=machine,
        finding="AwsSolutions-IAM5[Resource::*]",
        reason="The actions with which Step Functions has its log delivered have no resources. What is "
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
    yield Acceptance(
        construct=policy,
        finding="AwsSolutions-IAM5[Resource::*]",
        reason="Service Quotas limits reading to no resource. The function may change no quota.",
    )
