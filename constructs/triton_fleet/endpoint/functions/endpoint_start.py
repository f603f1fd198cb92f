"""Makes what has to be there before an endpoint starts, and outlives a start that fails."""

from __future__ import annotations

from aws_cdk import ArnFormat, CfnResource, CustomResource, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from triton_fleet.endpoint.functions.inline_function import InlineFunction
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.repository.model_repository import ModelRepository
from triton_models.repository.manifest import MANIFEST_NAME, Manifest

SOURCE = "endpoint_start"
"""The function's file."""


def _days(retention: logs.RetentionDays) -> int:
    """The days of a retention, as the CDK writes them; 0 for ever."""
    group = logs.LogGroup(Stack(), "Any", retention=retention).node.default_child
    assert isinstance(group, logs.CfnLogGroup)  # noqa: S101 -- a log group consists of it
    return int(group.retention_in_days or 0)


@typed
class EndpointStart(Construct):
    """A custom resource that is complete once an endpoint's log group and its models' manifest are there.

    SageMaker writes why an endpoint did not start into the log group, and a rollback deletes every group that
    the stack owns. So this one belongs to no stack: its retention is set, whoever made it, and it stays.

    The manifest is empty, and written only if there is no other. A model whose prefix has no object may be
    refused. Deleting the resource removes that empty version again, so that a bucket of a first deployment
    that failed can be deleted; what was published since stays.

    Attributes:
        function: The function that makes both.
        resource: The custom resource.
        log_group_name: The log group's name; what uses it comes after the group.
        log_group_arn: Its ARN, with ":*" at its end; what uses it comes after the group.
        written_arn: The same as a literal, for what must not depend on the resource.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        log_group_name: str,
        log_retention: logs.RetentionDays,
        repository: ModelRepository | None = None,
    ) -> None:
        """Create the function and the custom resource."""
        super().__init__(scope, construct_id)
        self.written_arn = Stack.of(self).format_arn(
            service="logs",
            resource="log-group",
            resource_name=f"{log_group_name}:*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        self.function = InlineFunction(
            self, "Function", source=SOURCE, description="Makes what an endpoint needs before it starts"
        )
        self.function.role.add_to_policy(
            iam.PolicyStatement(
                sid="LogGroup",
                actions=["logs:CreateLogGroup", "logs:PutRetentionPolicy", "logs:DeleteRetentionPolicy"],
                resources=[self.written_arn],
            )
        )
        properties: dict[str, object] = {
            "LogGroup": log_group_name,
            "LogGroupArn": self.written_arn,
            "RetentionDays": _days(log_retention),
        }
        if repository is not None:
            properties |= self._manifest(repository)
        self.resource = CustomResource(
            self,
            "Resource",
            resource_type="Custom::TritonEndpointStart",
            service_token=self.function.function.attr_arn,
            service_timeout=Duration.minutes(10),
            properties=properties,
        )
        self.log_group_name = self.resource.get_att_string("LogGroup")
        self.log_group_arn = self.resource.get_att_string("LogGroupArn")

    def _encrypt(self, key_arn: str) -> None:
        """Have the log group encrypted with a key."""
        resource = self.resource.node.default_child
        assert isinstance(resource, CfnResource)  # noqa: S101 -- a custom resource consists of it
        resource.add_property_override("KmsKeyId", key_arn)
        self.function.role.add_to_policy(
            iam.PolicyStatement(
                sid="LogGroupKey", actions=["logs:AssociateKmsKey"], resources=[self.written_arn]
            )
        )

    def _manifest(self, repository: ModelRepository) -> dict[str, object]:
        key = f"{repository.prefix}{MANIFEST_NAME}"
        for sid, actions, arn in (
            ("Manifest", ["s3:PutObject", "s3:DeleteObjectVersion"], repository.bucket.arn_for_objects(key)),
            ("ManifestKey", ["kms:GenerateDataKey"], repository.key.key_arn),
        ):
            self.function.role.add_to_policy(iam.PolicyStatement(sid=sid, actions=actions, resources=[arn]))
        return {"Bucket": repository.bucket.bucket_name, "ManifestKey": key, "Manifest": Manifest().to_json()}
