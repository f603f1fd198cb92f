"""Findings about what builds models that were looked at and accepted."""

from __future__ import annotations

from collections.abc import Iterator

from aws_cdk import Stack
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_iam as iam

from stacks.acceptance import (
    Acceptance,
    as_cdk_nag_writes,
    in_packs,
    of_role,
    of_role_and_logs,
    pattern,
    policy_of,
    reads_prefix,
)
from stacks.models import ModelsStack
from triton_fleet import BuildRuns, DeploymentBuild, ModelBuilds, ModelRepository
from triton_fleet.repository.processing_builds import job_arns, log_arns
from triton_fleet.repository.working_folder import runs, timing_cache

_NAMED_LATER = (
    "What is in this folder is named when a build runs. Beside the folder the role reaches nothing."
)


def build_acceptances(models: ModelsStack) -> Iterator[Acceptance]:
    """Everything of AwsSolutions that is accepted about builds."""
    if models.builds is None:
        return
    yield from _of_builds(models.builds, models.repository)
    if models.runs is not None or models.deployment_build is not None:
        folder = runs(models.repository)
        yield pattern(policy_of(models.builds.role), folder.objects_arn, _NAMED_LATER)
    if models.runs is not None:
        yield from _of_runs(models.runs)
    if models.deployment_build is not None:
        yield from _of_deployment_build(models.deployment_build, models)


def build_compliance_acceptances(models: ModelsStack) -> Iterator[Acceptance]:
    """Everything of the packs for a standard that is accepted about builds."""
    if models.builds is None:
        return
    yield from of_role_and_logs(models.builds.role, models.builds.node.find_child("Logs"))
    if models.builds.starter_role is not None:
        yield from of_role(models.builds.starter_role)
    yield from _of_source(models.builds.project)
    if models.runs is not None:
        yield from of_role_and_logs(models.runs.role, models.runs.log_group)
        yield from of_role(models.runs.step_role)
        yield from in_packs(
            models.runs.node.find_child("Children"),
            "IAMNoInlinePolicy",
            "The policy is of the state machine's role alone, and goes when that goes. It is a policy of its "
            "own because it names the state machine, which needs the role's other one.",
        )
        for project in (models.runs.changed_project, models.runs.summary_project):
            yield from _of_source(project)


def _of_builds(builds: ModelBuilds, repository: ModelRepository) -> Iterator[Acceptance]:
    policy = policy_of(builds.role)
    yield reads_prefix(policy, _bucket(repository), repository.prefix)
    if builds.gpu is not None:
        yield pattern(policy, timing_cache(repository).objects_arn, _NAMED_LATER)
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
        (starter, every_stream, "SageMaker gives all jobs one log group, and CloudWatch searches all of it."),
        (builds.role, every_stream, "SageMaker gives all jobs one log group, and lists all its streams."),
        (builds.role, own_streams, "A job's log stream is named when it starts, after the job's name."),
    ):
        yield pattern(policy_of(role), arn, reason)


def _of_runs(found: BuildRuns) -> Iterator[Acceptance]:
    """Of a state machine whose runs, and the builds in them, are named when they start."""
    repository, step, machine = found.folder.repository, policy_of(found.step_role), policy_of(found.role)
    yield reads_prefix(step, _bucket(repository), repository.prefix)
    yield pattern(step, found.folder.objects_arn, _NAMED_LATER)
    yield pattern(machine, found.items_arn, _NAMED_LATER)
    yield Acceptance(
        construct=machine,
        finding="AwsSolutions-IAM5[Resource::*]",
        reason="The actions with which Step Functions has its log delivered know no resources. What is "
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


def _of_deployment_build(build: DeploymentBuild, models: ModelsStack) -> Iterator[Acceptance]:
    policy = policy_of(build.function.role)
    yield pattern(policy, runs(models.repository).objects_arn, _NAMED_LATER)
    if models.runs is not None:
        every = models.runs.execution_arns[-1]
        yield pattern(policy, every, "An execution is named when it starts, after the deployment's request.")
    yield Acceptance(
        construct=policy,
        finding="AwsSolutions-IAM5[Resource::*]",
        reason="Service Quotas limits reading to no resource. The function may change no quota.",
    )


def _of_source(project: codebuild.Project) -> Iterator[Acceptance]:
    yield from in_packs(
        project,
        "CodeBuildProjectSourceRepoUrl",
        "The source is an archive in S3. There is no GitHub or Bitbucket repository to authenticate to: "
        "the rule asks for OAuth whatever the source is.",
        packs=("HIPAA.Security", "PCI.DSS.321"),
    )


def _bucket(repository: ModelRepository) -> str:
    """The bucket's ARN as cdk-nag writes it."""
    arn = Stack.of(repository).resolve(repository.bucket.bucket_arn)
    return f"<{arn['Fn::GetAtt'][0]}.Arn>" if repository.owned else as_cdk_nag_writes(arn)
