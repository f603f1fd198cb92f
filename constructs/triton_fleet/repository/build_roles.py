"""Roles of builds, and what every build in CodeBuild may do: read its source, and log."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
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


def codebuild_statements(*, source: assets.Asset, log_group: logs.ILogGroup) -> list[iam.PolicyStatement]:
    """What a build in CodeBuild does whatever it builds."""
    return [
        iam.PolicyStatement(
            sid="Source",
            actions=["s3:GetObject", "s3:GetObjectVersion"],
            resources=[source.bucket.arn_for_objects(source.s3_object_key)],
        ),
        iam.PolicyStatement(
            sid="Logs",
            actions=["logs:CreateLogStream", "logs:PutLogEvents"],
            resources=[log_group.log_group_arn],
        ),
    ]
