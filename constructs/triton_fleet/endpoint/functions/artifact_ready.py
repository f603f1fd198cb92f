"""Lets a deployment wait until artifacts are in their repository."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import CustomResource, Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from triton_fleet.endpoint.functions.checks import LONGEST_ARTIFACT_TIMEOUT
from triton_fleet.endpoint.functions.inline_function import InlineFunction, allow_successor
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.repository.model_repository import ModelRepository

# Left of CloudFormation's hour when the function gives up: for its answer, which names what is missing, to
# come before CloudFormation's own, which names nothing.
_SPARE_S = 60


@typed
class ArtifactReady(Construct):
    """A custom resource that is complete once every artifact is in the repository.

    What depends on it is created after that. Another list of artifacts is waited for again; deleting it does
    nothing. If an artifact is still missing when the time is up, the deployment fails, and says which one.

    It asks S3 every ten seconds, from a Lambda function that starts its own successor before its fifteen
    minutes are over: at most five times, far below the sixteen at which Lambda stops a function that invokes
    itself. So that guard stays on.

    Attributes:
        function: The function that waits.
        resource: The custom resource.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        repository: ModelRepository,
        artifacts: Sequence[str],
        timeout: Duration,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
    ) -> None:
        """Create the function and the custom resource."""
        super().__init__(scope, construct_id)
        self.function = InlineFunction(
            self,
            "Function",
            source="artifact_ready",
            description="Waits for artifacts in a model repository",
            log_retention=log_retention,
        )
        self.function.role.add_to_policy(
            iam.PolicyStatement(
                sid="Artifacts",  # listing shows whether one is there; reading models is not for this role
                actions=["s3:ListBucket"],
                resources=[repository.bucket.bucket_arn],
                conditions={"StringLike": {"s3:prefix": f"{repository.prefix}*"}},
            )
        )
        seconds = int(timeout.to_milliseconds() / 1000)
        self.resource = CustomResource(
            self,
            "Resource",
            resource_type="Custom::TritonArtifact",
            service_token=self.function.function.attr_arn,
            service_timeout=Duration.seconds(min(seconds + _SPARE_S, LONGEST_ARTIFACT_TIMEOUT)),
            properties={
                "Bucket": repository.bucket.bucket_name,
                "Prefix": repository.prefix,
                "Artifacts": list(dict.fromkeys(artifacts)),
                "WaitSeconds": min(seconds, LONGEST_ARTIFACT_TIMEOUT - _SPARE_S),
            },
        )
        self.resource.node.add_dependency(allow_successor(self, self.function))
