"""The permissions of the instances of an endpoint."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct, IDependable

from triton_fleet.endpoint.shared import Shared
from triton_fleet.parts.arguments.roles import advise_on_immutable, is_immutable, service_role
from triton_fleet.parts.images.image import TritonImage
from triton_fleet.parts.metrics.facts import HOST_NAMESPACE, INVOCATION_NAMESPACE
from triton_fleet.parts.network.findings import acknowledge_network_interfaces


def execution_role(
    scope: Construct, *, endpoint_name: str, shared: Shared, image: TritonImage, log_group_arn: str
) -> tuple[iam.IRole, IDependable]:
    """The role of the instances, which may read the repository, pull one image, log and publish metrics.

    Returns the role, and the policy that has to be there before the role is used.
    """
    network, key = shared.placement.network, shared.placement.encryption_key
    role = shared.placement.role or service_role(
        scope,
        # An endpoint of another name comes with a role of its own. Were it the same one, its policy would
        # name the new log group only, and the old endpoint could not log until it is gone.
        f"Role-{endpoint_name}",
        service="sagemaker.amazonaws.com",
        description=f"What the instances of the endpoint {endpoint_name} may do",
    )
    granted = shared.repository.grant_read(role).principal_statements
    statements = [*image.pull_statements(), *_telemetry_statements(shared, log_group_arn)]
    if shared.rollback_alarms:
        statements.append(see_alarms(scope, shared.rollback_alarms))
    if network is not None:
        network.allow_repository(shared.repository)
        statements += network._statements()
    *_, policy = [role.add_to_principal_policy(each).policy_dependable for each in statements]
    assert policy is not None  # noqa: S101 -- every role has one, or pretends to
    if network is not None and not is_immutable(role):
        acknowledge_network_interfaces(role)
    if key is not None:
        granted += _grant_volume(role, key)
    advise_on_immutable(scope, role, [*granted, *statements], service="SageMaker")
    return role, policy


def _grant_volume(role: iam.IRole, key: kms.IKey) -> list[iam.PolicyStatement]:
    used = key.grant(role, "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext")
    attached = iam.Grant.add_to_principal(
        grantee=role,
        actions=["kms:CreateGrant"],  # the volume is attached by EC2, which SageMaker lets use the key
        resource_arns=[key.key_arn],
        conditions={"Bool": {"kms:GrantIsForAWSResource": "true"}},
    )
    return [*used.principal_statements, *attached.principal_statements]


def see_alarms(scope: Construct, names: Sequence[str]) -> iam.PolicyStatement:
    """The permission to read alarms that roll an update back, which AWS asks for.

    Source, read on 2026-11-22:
    https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-configuration.html
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
    namespaces = [INVOCATION_NAMESPACE, HOST_NAMESPACE]
    if shared.server.metrics is not None:
        namespaces.append(shared.server.metrics.namespace)
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
