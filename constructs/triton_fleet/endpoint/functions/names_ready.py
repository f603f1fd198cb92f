"""Lets a fleet move to another endpoint only if that has an artifact for every name the fleet serves."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import CustomResource, Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from triton_fleet.endpoint.functions.inline_function import InlineFunction
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.repository.model_repository import ModelRepository
from triton_models.artifact.targets import ArtifactTarget
from triton_models.repository.manifest import MANIFEST_NAME


@typed
class NamesReady(Construct):
    """Custom resources that are there only if every name of a fleet stands for something on a target.

    Compared is what the alias names now with what is to come: each model that the target of today's endpoint
    has an artifact of must have one for the new target. A deployment that would lose one fails, and names it.
    It also fails if it would restore a version that was rolled back. The first
    deployment of a fleet, which has no alias yet, is not checked.

    It is checked before the new endpoint is created, and once more before the alias moves. Both resources
    belong to one endpoint, so that neither an update of that endpoint nor a rollback checks anything.

    Attributes:
        function: The function that checks.
        before: The custom resource that the endpoint waits for.
        after: The custom resource that the alias waits for, in addition to the endpoint.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        repository: ModelRepository,
        alias: str,
        alias_arn: str,
        endpoint_name: str,
        target: str,
        not_needed: Sequence[str] = (),
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
    ) -> None:
        """Create the function and the custom resources."""
        super().__init__(scope, construct_id)
        ArtifactTarget.parse(target)
        self.function = InlineFunction(
            self,
            "Function",
            source="names_ready",
            description="Checks that an endpoint has an artifact for every name that a fleet serves",
            memory_mb=256,  # it reads a manifest of thousands of models
            log_retention=log_retention,
        )
        for statement in _statements(repository, alias_arn):
            self.function.role.add_to_policy(statement)
        properties = {
            "Alias": alias,
            "Bucket": repository.bucket.bucket_name,
            "ManifestKey": f"{repository.prefix}{MANIFEST_NAME}",
            "Endpoint": endpoint_name,
            "Target": target,
            "NotNeeded": sorted(not_needed),
        }
        self.before, self.after = (
            CustomResource(
                self,
                f"{when}-{endpoint_name}",
                resource_type="Custom::TritonNames",
                service_token=self.function.function.attr_arn,
                service_timeout=Duration.minutes(5),
                properties=properties,
            )
            for when in ("Before", "After")
        )


def _statements(repository: ModelRepository, alias_arn: str) -> list[iam.PolicyStatement]:
    manifest = f"{repository.prefix}{MANIFEST_NAME}"
    return [
        iam.PolicyStatement(sid="Alias", actions=["ssm:GetParameter"], resources=[alias_arn]),
        iam.PolicyStatement(
            sid="Manifest", actions=["s3:GetObject"], resources=[repository.bucket.arn_for_objects(manifest)]
        ),
        iam.PolicyStatement(
            sid="ManifestListed",
            actions=["s3:ListBucket"],
            resources=[repository.bucket.bucket_arn],
            conditions={"StringLike": {"s3:prefix": manifest}},
        ),
        iam.PolicyStatement(sid="Key", actions=["kms:Decrypt"], resources=[repository.key.key_arn]),
    ]
