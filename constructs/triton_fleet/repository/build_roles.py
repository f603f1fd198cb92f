"""Roles of builds, and what every build in CodeBuild may do: read its source, and log."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

CODEBUILD = "codebuild.amazonaws.com"


def service_role(scope: Construct, construct_id: str, *, service: str, description: str) -> iam.Role:
    """A role that a service takes for this account only."""
    return iam.Role(
        scope,
        construct_id,
        assumed_by=iam.ServicePrincipal(
            service, conditions={"StringEquals": {"aws:SourceAccount": Stack.of(scope).account}}
        ),
        description=description,
    )


def source_key_statements(key: kms.IKey | None) -> list[iam.PolicyStatement]:
    """Return the statements for reading an asset whose bucket has a customer-managed key."""
    if key is None:
        return []
    return [iam.PolicyStatement(sid="SourceKey", actions=["kms:Decrypt"], resources=[key.key_arn])]


def codebuild_statements(
    *, source: assets.Asset, key: kms.IKey | None, log_group: logs.ILogGroup
) -> list[iam.PolicyStatement]:
    """Return the statements of every build in CodeBuild.

    Args:
        source: The source folder.
        key: The key of the bucket that it is in, if that is the account's own.
        log_group: Where the build logs.
    """
    return [
        iam.PolicyStatement(
            sid="Source",
            actions=["s3:GetObject", "s3:GetObjectVersion"],
            resources=[source.bucket.arn_for_objects(source.s3_object_key)],
        ),
        iam.PolicyStatement(
            sid="SourceBucket",  # CodeBuild may look at the bucket of an S3 source before it reads
            actions=["s3:GetBucketAcl", "s3:GetBucketLocation"],
            resources=[source.bucket.bucket_arn],
        ),
        *source_key_statements(key),
        iam.PolicyStatement(
            sid="Logs",
            actions=["logs:CreateLogStream", "logs:PutLogEvents"],
            resources=[log_group.log_group_arn],
        ),
    ]
