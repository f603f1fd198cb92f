"""Builds as SageMaker Processing jobs: the request of a job, and what starts it.

A CodeBuild project starts the job, so that every build is started, overridden, listed and watched in the same
way on any machine: by `aws codebuild start-build` with another FLEET_MODELS. `BuildRuns` starts the same
project for each of its builds. The price is a small machine without a GPU that waits, about half a cent per
minute.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aws_cdk import ArnFormat, IStableAnyProducer, Lazy, Names, Stack, TagManager
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as assets
from constructs import Construct
from jsii import implements

from triton_fleet.builds.code.run_processing_job import LOG_GROUP
from triton_fleet.builds.codebuild import log_statement, source_key_statements
from triton_fleet.builds.commands import ENVIRONMENT, commands
from triton_fleet.builds.inputs import BuildInputs
from triton_fleet.parts.images.image import TritonImage
from triton_fleet.parts.network.endpoint_network import EndpointNetwork
from triton_models.facts.build_machines import VOLUME_GB
from triton_models.facts.instances import Gpu

SERVICE = "sagemaker.amazonaws.com"
_METRICS = "/aws/sagemaker/ProcessingJobs"
_PROGRAM = Path(__file__).with_name("code") / "run_processing_job.py"
_SOURCE = "/opt/ml/processing/source"

# One line and at most 256 characters, as CreateProcessingJob takes it: the models up to "--" into their
# variable, then the source, then each command in the same shell until one fails.
_ENTRYPOINT = (
    "set -euo pipefail; export FLEET_MODELS=; "
    'while [ "$1" != -- ]; do FLEET_MODELS+=" $1"; shift; done; shift; '
    f'cd "$(mktemp -d)"; python3 -m zipfile -e {_SOURCE}/*.zip .; '
    'for c; do echo "+ $c"; eval "$c"; done'
)


def job_arns(scope: Construct) -> str:
    """The ARN pattern of a construct's jobs."""
    return Stack.of(scope).format_arn(
        service="sagemaker", resource="processing-job", resource_name=f"{job_prefix(scope)}-*"
    )


def log_arns(scope: Construct) -> tuple[str, str]:
    """The ARN patterns of the log that SageMaker keeps of all jobs, and of its streams of this one's jobs."""
    group = _log_arn(scope)
    return f"{group}:*", f"{group}:log-stream:{job_prefix(scope)}-*"


def job_prefix(scope: Construct) -> str:
    """Return the prefix of the names of a construct's jobs; a build's id of 37 characters follows."""
    return Names.unique_resource_name(scope, max_length=25, separator="-").lower()


def program() -> str:
    """The command that starts a job and waits for it, with its program in it."""
    return f"python3 - <<'END_OF_PROGRAM'\n{_PROGRAM.read_text().rstrip()}\nEND_OF_PROGRAM"


def job_variables(
    scope: Construct,
    *,
    image: TritonImage,
    role: iam.IRole,
    source: assets.Asset,
    instance_type: str,
    gpu: Gpu,
    seconds: float,
    inputs: BuildInputs,
    environment: Mapping[str, str],
    network: EndpointNetwork | None,
    volume_key: kms.IKey | None,
) -> Mapping[str, str]:
    """Return what the program reads: CreateProcessingJob's request, but for the job's name and the models."""
    phases = commands(gpu)
    given, fetched = inputs.of_job()
    key = {} if volume_key is None else {"VolumeKmsKeyId": volume_key.key_arn}
    placed = {}
    if network is not None:
        config = {
            "SecurityGroupIds": [group.security_group_id for group in network.security_groups],
            "Subnets": [subnet.subnet_id for subnet in network.subnets],
        }
        placed = {"NetworkConfig": {"VpcConfig": config}}
    stack = Stack.of(scope)
    request = {
        "RoleArn": role.role_arn,
        "AppSpecification": {
            "ImageUri": image.uri,
            "ContainerEntrypoint": ["bash", "-c", _ENTRYPOINT, "build"],
            "ContainerArguments": ["--", *phases["install"], *fetched, *phases["build"]],
        },
        "ProcessingInputs": [
            {
                "InputName": "source",
                "S3Input": {
                    "S3Uri": source.s3_object_url,
                    "LocalPath": _SOURCE,
                    "S3DataType": "S3Prefix",
                    "S3InputMode": "File",
                },
            }
        ],
        "ProcessingResources": {
            "ClusterConfig": {
                "InstanceCount": 1,
                "InstanceType": instance_type,
                "VolumeSizeInGB": VOLUME_GB,
                **key,
            }
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": seconds},
        "Environment": {**environment, **ENVIRONMENT, "AWS_DEFAULT_REGION": stack.region, **given},
        **placed,
        "Tags": Lazy.any(_TagsOf(scope), omit_empty_array=True),  # as they are in the template
    }
    return {"FLEET_JOB": stack.to_json_string(request), "FLEET_JOB_PREFIX": job_prefix(scope)}


@implements(IStableAnyProducer)
class _TagsOf:
    """The tags of the project that starts a construct's jobs, as the API takes them."""

    def __init__(self, construct: Construct) -> None:
        self._construct = construct

    def produce(self) -> list[dict[str, str]]:
        project = self._construct.node.find_child("Resource").node.default_child
        manager = TagManager.of(project)
        assert manager is not None  # noqa: S101 -- a project can be tagged
        return [{"Key": key, "Value": value} for key, value in sorted(manager.tag_values().items())]


def job_statements(
    scope: Construct, *, source: assets.Asset, key: kms.IKey | None
) -> list[iam.PolicyStatement]:
    """Return the statements of a job besides pulling its image and publishing: source, log and metrics.

    Source of the actions, read 2026-11-21, "CreateProcessingJob API: Execution Role Permissions":
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html
    """
    every_stream, own_streams = log_arns(scope)
    return [
        iam.PolicyStatement(
            sid="Source",
            actions=["s3:GetObject"],
            resources=[source.bucket.arn_for_objects(source.s3_object_key)],
        ),
        iam.PolicyStatement(
            sid="SourceListed",  # the input is a prefix, which SageMaker lists
            actions=["s3:ListBucket"],
            resources=[source.bucket.bucket_arn],
            conditions={"StringLike": {"s3:prefix": source.s3_object_key}},
        ),
        *source_key_statements(key),
        iam.PolicyStatement(
            sid="LogGroup",
            actions=["logs:CreateLogGroup", "logs:DescribeLogStreams"],
            resources=[_log_arn(scope), every_stream],
        ),
        iam.PolicyStatement(
            sid="Logs", actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[own_streams]
        ),
        iam.PolicyStatement(
            sid="Metrics",  # has no resource-level permissions
            actions=["cloudwatch:PutMetricData"],
            resources=["*"],
            conditions={"StringEquals": {"cloudwatch:namespace": _METRICS}},
        ),
    ]


def volume_statements(key: kms.IKey | None) -> list[iam.PolicyStatement]:
    """Return the statements for a volume with a key; none without one.

    Source of the actions, read 2026-11-23: the same page, for VolumeKmsKeyId.
    """
    if key is None:
        return []
    return [
        iam.PolicyStatement(
            sid="VolumeAttached",  # by EC2, which SageMaker lets use the key
            actions=["kms:CreateGrant"],
            resources=[key.key_arn],
            conditions={"Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
        iam.PolicyStatement(
            sid="Volume",
            actions=["kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext"],
            resources=[key.key_arn],
        ),
    ]


def starter_statements(
    scope: Construct, *, job_role: iam.IRole, log_group: logs.ILogGroup
) -> list[iam.PolicyStatement]:
    """Return the statements for starting a job and waiting for it."""
    every_stream, _ = log_arns(scope)
    return [
        iam.PolicyStatement(
            sid="Jobs",
            actions=[
                "sagemaker:CreateProcessingJob",
                "sagemaker:DescribeProcessingJob",
                "sagemaker:StopProcessingJob",
                "sagemaker:AddTags",  # with tags in the request
            ],
            resources=[job_arns(scope)],
        ),
        iam.PolicyStatement(
            sid="JobRole",
            actions=["iam:PassRole"],
            resources=[job_role.role_arn],
            conditions={"StringEquals": {"iam:PassedToService": SERVICE}},
        ),
        # CloudWatch looks for events in all of a group, and names no stream in what it asks IAM for.
        iam.PolicyStatement(sid="JobLogs", actions=["logs:FilterLogEvents"], resources=[every_stream]),
        log_statement(log_group),
    ]


def _log_arn(scope: Construct) -> str:
    return Stack.of(scope).format_arn(
        service="logs",
        resource="log-group",
        resource_name=LOG_GROUP,
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
