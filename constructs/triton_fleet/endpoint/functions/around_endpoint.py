"""Custom resources before and after an endpoint: what it needs, and what has become of its change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import ArnFormat, CfnResource, CustomResource, Duration, Stack, Token
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from triton_fleet.endpoint.functions.inline_function import InlineFunction
from triton_fleet.parts.repository.model_repository import ModelRepository
from triton_models.repository.manifest import MANIFEST_NAME, Manifest


def endpoint_arns(scope: Construct, *names: str) -> list[str]:
    """The ARNs of endpoints: SageMaker writes names in ARNs in lower case, and IAM compares with the case."""
    return [
        Stack.of(scope).format_arn(
            service="sagemaker",
            resource="endpoint",
            resource_name=each,
            arn_format=ArnFormat.SLASH_RESOURCE_NAME,
        )
        for each in dict.fromkeys(each for name in names for each in (name, _lower(name)))
    ]


def _lower(name: str) -> str:
    return name if Token.is_unresolved(name) else name.lower()


def _days(retention: logs.RetentionDays) -> int:
    """The days of a retention, as the CDK writes them; 0 for ever."""
    group = logs.LogGroup(Stack(), "Any", retention=retention).node.default_child
    assert isinstance(group, logs.CfnLogGroup)  # noqa: S101 -- a log group consists of it
    return int(group.retention_in_days or 0)


def _add_property(resource: CustomResource, name: str, value: object) -> None:
    child = resource.node.default_child
    assert isinstance(child, CfnResource)  # noqa: S101 -- a custom resource consists of it
    child.add_property_override(name, value)


class EndpointStart(Construct):
    """A custom resource that is complete once an endpoint's log group and its models' manifest are there.

    SageMaker writes why an endpoint did not start into the log group, and a rollback deletes every group that
    the stack owns. So this one belongs to no stack: its retention is set, whoever made it, and it stays.

    The manifest is empty, and written only if there is no other. A model whose prefix has no object may be
    refused. Deleting the resource removes that empty version again, so that a bucket of a first deployment
    that failed can be deleted; what was published since stays.

    `log_group_name` and `log_group_arn`, with ":*" at its end, make what uses them come after the group;
    `written_arn` is for what must not depend on the resource.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        log_group_name: str,
        log_retention: logs.RetentionDays,
        repository: ModelRepository | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.written_arn = Stack.of(self).format_arn(
            service="logs",
            resource="log-group",
            resource_name=f"{log_group_name}:*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        self.function = InlineFunction(
            self,
            "Function",
            source="endpoint_start",
            description="Makes what an endpoint needs before it starts",
        )
        actions = ["logs:CreateLogGroup", "logs:PutRetentionPolicy", "logs:DeleteRetentionPolicy"]
        self.function.allow("LogGroup", actions, [self.written_arn])
        properties: dict[str, object] = {
            "LogGroup": log_group_name,
            "LogGroupArn": self.written_arn,
            "RetentionDays": _days(log_retention),
        }
        if repository is not None:
            properties |= self._manifest(repository)
        self.resource = self.function.resource(
            self, "Resource", "EndpointStart", properties, timeout=Duration.minutes(10)
        )
        self.log_group_name = self.resource.get_att_string("LogGroup")
        self.log_group_arn = self.resource.get_att_string("LogGroupArn")

    def _encrypt(self, key_arn: str) -> None:
        _add_property(self.resource, "KmsKeyId", key_arn)
        self.function.allow("LogGroupKey", ["logs:AssociateKmsKey"], [self.written_arn])

    def _manifest(self, repository: ModelRepository) -> dict[str, object]:
        bucket, key = repository.bucket, f"{repository.prefix}{MANIFEST_NAME}"
        actions = ["s3:PutObject", "s3:DeleteObjectVersion"]
        self.function.allow("Manifest", actions, [bucket.arn_for_objects(key)])
        self.function.allow("ManifestKey", ["kms:GenerateDataKey"], [repository.key.key_arn])
        return {"Bucket": bucket.bucket_name, "ManifestKey": key, "Manifest": Manifest().to_json()}


class EndpointChange(Construct):
    """Custom resources before and after an endpoint.

    The one before it is complete once SageMaker accepts a change of the endpoint: not while auto scaling or
    another update changes it. Its properties name the configuration, so it waits before each update, and in
    a rollback.

    The one after it is complete once the endpoint serves with its configuration. If SageMaker has undone the
    update, it fails with SageMaker's reason, whatever CloudFormation makes of that. It belongs to one
    endpoint: when the endpoint is removed, it is deleted first, and waits until the endpoint can be deleted.

    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: sagemaker.CfnEndpoint,
        endpoint_name: str,
        log_retention: logs.RetentionDays,
    ) -> None:
        super().__init__(scope, construct_id)
        self.function = InlineFunction(
            self,
            "Function",
            source="endpoint_change",
            description="Waits until an endpoint can be changed, and until it has changed",
            log_retention=log_retention,
        )
        self._arns = endpoint_arns(self, endpoint_name)
        self._needed = (self._may_look(endpoint_name), self.function.allow_successor(self))
        properties = {"Endpoint": endpoint_name, "Config": endpoint.endpoint_config_name}
        endpoint.node.add_dependency(self._resource("Idle", "EndpointIdle", properties))
        self.settled = self._resource(f"Settled-{endpoint_name}", "EndpointSettled", properties)
        self.settled.node.add_dependency(endpoint)

    def _take_over(
        self, *, alias: str, alias_arn: str, endpoints: Sequence[str], most: Mapping[str, float]
    ) -> None:
        """Give a new endpoint the instances of the one that an alias names."""
        _add_property(self.settled, "Alias", alias)
        _add_property(self.settled, "MaxCapacity", most)
        self.function.allow("Alias", ["ssm:GetParameter"], [alias_arn])
        self.function.allow("Fleet", ["sagemaker:DescribeEndpoint"], endpoints)
        self.function.allow("Capacity", ["sagemaker:UpdateEndpointWeightsAndCapacities"], self._arns)

    def _may_look(self, endpoint_name: str) -> iam.Policy:
        """A policy that goes with the endpoint: the role's own would name the next endpoint alone by then."""
        look = iam.PolicyStatement(actions=["sagemaker:DescribeEndpoint"], resources=self._arns)
        return iam.Policy(self, f"Look-{endpoint_name}", roles=[self.function.role], statements=[look])

    def _resource(self, construct_id: str, kind: str, properties: Mapping[str, str]) -> CustomResource:
        resource = self.function.resource(self, construct_id, kind, properties, timeout=Duration.hours(1))
        resource.node.add_dependency(*self._needed)
        return resource
