"""The permissions of the instances of an endpoint."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from triton_fleet.endpoint.shared import Shared
from triton_fleet.hosting.compliance import acknowledge_network_interfaces
from triton_fleet.images.image import TritonImage
from triton_fleet.metrics.facts import HOST_NAMESPACE, INVOCATION_NAMESPACE


def execution_role(
    scope: Construct, *, endpoint_name: str, shared: Shared, image: TritonImage, log_group_arn: str
) -> iam.Role:
    """A role for the instances that can read the repository, pull one image, log and publish metrics.

    Args:
        scope: The endpoint.
        endpoint_name: Its name.
        shared: What the endpoint is given.
        image: The image that the instances pull.
        log_group_arn: Where they log.
    """
    role = iam.Role(
        scope,
        # An endpoint of another name comes with a role of its own. Were it the same one, its policy would
        # name the new log group only, and the old endpoint could not log until it is gone.
        f"Role-{endpoint_name}",
        assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
        description=f"What the instances of the endpoint {endpoint_name} may do",
    )
    network, key = shared.network, shared.encryption_key
    shared.repository.grant_read(role)
    for statement in (*image.pull_statements(), *_telemetry_statements(shared, log_group_arn)):
        role.add_to_policy(statement)
    if shared.rollback_alarms:
        role.add_to_policy(see_alarms(scope, shared.rollback_alarms))
    if network is not None:
        network.allow_repository(shared.repository)
        for statement in network._statements():
            role.add_to_policy(statement)
        acknowledge_network_interfaces(role)
    if key is not None:
        key.grant(role, "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext")
        iam.Grant.add_to_principal(
            grantee=role,
            actions=["kms:CreateGrant"],  # the volume is attached by EC2, which SageMaker lets use the key
            resource_arns=[key.key_arn],
            conditions={"Bool": {"kms:GrantIsForAWSResource": "true"}},
        )
    return role


def see_alarms(scope: Construct, names: Sequence[str]) -> iam.PolicyStatement:
    """The permission to read alarms that roll an update back, which AWS asks for.

    Source, read on 2026-11-22:
    https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-configuration.html

    Args:
        scope: The endpoint.
        names: The alarms' names.
    """
    arns = [
        Stack.of(scope).format_arn(
            service="cloudwatch",
            resource="alarm",
            resource_name=name,
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        for name in names
    ]
    return iam.PolicyStatement(actions=["cloudwatch:DescribeAlarms"], resources=arns)


def _telemetry_statements(shared: Shared, log_group_arn: str) -> list[iam.PolicyStatement]:
    namespaces = [INVOCATION_NAMESPACE, HOST_NAMESPACE, *shared.server._metric_namespaces()]
    return [
        iam.PolicyStatement(
            sid="Logs",
            # CreateLogGroup although the group exists: the host's log agent starts by asking for it.
            actions=[
                "logs:CreateLogGroup",
                "logs:CreateLogStream",
                "logs:DescribeLogStreams",
                "logs:PutLogEvents",
            ],
            resources=[log_group_arn],
        ),
        iam.PolicyStatement(
            sid="Metrics",  # PutMetricData has no resource-level permissions, only this condition
            actions=["cloudwatch:PutMetricData"],
            resources=["*"],
            conditions={"StringEquals": {"cloudwatch:namespace": namespaces}},
        ),
    ]
