"""Lets an endpoint be changed at any time, and checks what has become of the change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import ArnFormat, CfnResource, CustomResource, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from triton_fleet.endpoint.functions.inline_function import InlineFunction, allow_successor
from triton_fleet.parts.arguments.typed import typed


@typed
class EndpointChange(Construct):
    """Custom resources before and after an endpoint.

    The one before it is complete once SageMaker accepts a change of the endpoint: not while auto scaling or
    another update changes it. Its properties name the configuration, so it waits before each update, and in
    a rollback.

    The one after it is complete once the endpoint serves with its configuration. If SageMaker has undone the
    update, it fails with SageMaker's reason, whatever CloudFormation makes of that. It belongs to one
    endpoint: when the endpoint is removed, it is deleted first, and waits until the endpoint can be deleted.

    Attributes:
        function: The function that waits.
        settled: The custom resource after the endpoint.
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
        """Create the function and the custom resources."""
        super().__init__(scope, construct_id)
        self.function = InlineFunction(
            self,
            "Function",
            source="endpoint_change",
            description="Waits until an endpoint can be changed, and until it has changed",
            log_retention=log_retention,
        )
        # SageMaker writes a name in an ARN in lower case, and IAM compares as it is written.
        self._arns = [self._arn(name) for name in dict.fromkeys((endpoint_name, endpoint_name.lower()))]
        self._needed = (self._may_look(endpoint_name), allow_successor(self, self.function))
        properties = {"Endpoint": endpoint_name, "Config": endpoint.endpoint_config_name}
        idle = self._resource("Idle", "Custom::TritonEndpointIdle", properties)
        endpoint.node.add_dependency(idle)
        self.settled = self._resource(f"Settled-{endpoint_name}", "Custom::TritonEndpointSettled", properties)
        self.settled.node.add_dependency(endpoint)

    def _take_over(
        self, *, alias: str, alias_arn: str, endpoints: Sequence[str], most: Mapping[str, float]
    ) -> None:
        """Give a new endpoint the instances of the one that an alias names."""
        resource = self.settled.node.default_child
        assert isinstance(resource, CfnResource)  # noqa: S101 -- a custom resource consists of it
        resource.add_property_override("Alias", alias)
        resource.add_property_override("MaxCapacity", most)
        self._allow("Alias", ["ssm:GetParameter"], [alias_arn])
        self._allow("Fleet", ["sagemaker:DescribeEndpoint"], endpoints)
        self._allow("Capacity", ["sagemaker:UpdateEndpointWeightsAndCapacities"], self._arns)

    def _may_look(self, endpoint_name: str) -> iam.Policy:
        """A policy that goes with the endpoint: the role's own would name the next endpoint alone by then."""
        look = iam.PolicyStatement(actions=["sagemaker:DescribeEndpoint"], resources=self._arns)
        return iam.Policy(self, f"Look-{endpoint_name}", roles=[self.function.role], statements=[look])

    def _allow(self, sid: str, actions: Sequence[str], resources: Sequence[str]) -> None:
        statement = iam.PolicyStatement(sid=sid, actions=list(actions), resources=list(resources))
        self.function.role.add_to_policy(statement)

    def _arn(self, name: str) -> str:
        return Stack.of(self).format_arn(
            service="sagemaker",
            resource="endpoint",
            resource_name=name,
            arn_format=ArnFormat.SLASH_RESOURCE_NAME,
        )

    def _resource(self, construct_id: str, kind: str, properties: Mapping[str, str]) -> CustomResource:
        resource = CustomResource(
            self,
            construct_id,
            resource_type=kind,
            service_token=self.function.function.attr_arn,
            service_timeout=Duration.hours(1),
            properties=properties,
        )
        resource.node.add_dependency(*self._needed)
        return resource
