"""CodeBuild: the environment of a build on a machine on demand or a reserved one, its role, and its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import CfnMapping, CfnResource, Duration, Size, Stack, Token
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from triton_fleet.builds.commands import build_spec
from triton_fleet.builds.machines import BuildMachine, ReservedMachines
from triton_fleet.parts.arguments.roles import policy_of
from triton_fleet.parts.images.image import TritonImage
from triton_fleet.parts.network.endpoint_network import EndpointNetwork
from triton_models.facts.build_machines import EXTRA_DISK_GB
from triton_models.facts.build_machines import BuildMachine as OnDemand

CODEBUILD = "codebuild.amazonaws.com"

# AWS's own image with Python 3.11 and boto3, in every region. Read on 2026-11-21:
# https://github.com/aws/aws-codebuild-docker-images/blob/master/al/x86_64/standard/5.0/Dockerfile
STARTER_IMAGE = codebuild.LinuxBuildImage.AMAZON_LINUX_2023_5


def commands_project(
    scope: Construct,
    construct_id: str,
    *,
    description: str,
    phases: Mapping[str, Sequence[str]],
    environment: codebuild.BuildEnvironment,
    values: Mapping[str, codebuild.BuildEnvironmentVariable],
    role: iam.IRole,
    key: kms.IKey,
    log_group: logs.ILogGroup,
    timeout: Duration,
    source: assets.Asset | None = None,
    network: EndpointNetwork | None = None,
) -> codebuild.Project:
    """A project that runs commands, with a role that is complete as it stands."""
    unchanged = (
        role.without_policy_updates()
        if isinstance(role, iam.Role)
        else iam.Role.from_role_arn(scope, f"{construct_id}Role", role.role_arn, mutable=False)
    )
    project = codebuild.Project(
        scope,
        construct_id,
        description=description,
        source=codebuild.Source.s3(bucket=source.bucket, path=source.s3_object_key) if source else None,
        environment=environment,
        environment_variables=values,
        build_spec=codebuild.BuildSpec.from_object(build_spec(phases)),
        logging=codebuild.LoggingOptions(cloud_watch=codebuild.CloudWatchLoggingOptions(log_group=log_group)),
        timeout=timeout,
        encryption_key=key,
        grant_report_group_permissions=False,  # no reports are made
        role=unchanged,
        vpc=network.vpc if network else None,
        subnet_selection=ec2.SubnetSelection(subnets=list(network.subnets)) if network else None,
        security_groups=list(network.security_groups) if network else None,
    )
    if network is not None:
        # The CDK's own policy for the VPC would belong to no role; CodeBuild checks that of the role at once.
        project.node.try_remove_child("PolicyDocument")
        project.node.add_dependency(policy_of(role))
    return project


def build_environment(
    scope: Construct, *, machine: BuildMachine, image: TritonImage, gpu: bool
) -> codebuild.BuildEnvironment:
    """Return the environment of a build's commands: the Triton image."""
    compute_type, fleet = None, None
    if isinstance(machine.choice, ReservedMachines):
        fleet = _fleet(scope, machine, machine.choice)
    else:
        compute_type = codebuild.ComputeType[machine.name.removeprefix("BUILD_GENERAL1_")]
    build_image = (
        codebuild.LinuxGpuBuildImage.aws_deep_learning_containers_image(
            image.repository_name, image.tag, image.account
        )
        if gpu
        # Pulled with the project's role, as CodeBuild calls any image that is not its own.
        else codebuild.LinuxBuildImage.from_docker_registry(image.uri)
    )
    return codebuild.BuildEnvironment(
        build_image=build_image, compute_type=compute_type, fleet=fleet, privileged=False
    )


def only_where_offered(project: codebuild.Project, machine: OnDemand) -> None:
    """Have CloudFormation refuse the project where its machine is not offered.

    A stack with a region was checked at synthesis. A template that serves every region takes the machine from
    a mapping, so that any other region fails before the first resource is made.
    """
    stack, resource = Stack.of(project), project.node.default_child
    if machine.regions is None or not Token.is_unresolved(stack.region):
        return
    offered = {region: {"type": machine.compute_type} for region in machine.regions}
    mapping = CfnMapping(project, "OnDemand", mapping=offered)
    assert isinstance(resource, CfnResource)  # noqa: S101 -- every project is one
    resource.add_property_override("Environment.ComputeType", mapping.find_in_map(stack.region, "type"))


def starter_environment() -> codebuild.BuildEnvironment:
    """Return the environment that starts a Processing job and waits for it: the smallest machine."""
    return codebuild.BuildEnvironment(
        build_image=STARTER_IMAGE, compute_type=codebuild.ComputeType.SMALL, privileged=False
    )


def variables(values: Mapping[str, str]) -> dict[str, codebuild.BuildEnvironmentVariable]:
    """Environment variables as a project takes them."""
    return {name: codebuild.BuildEnvironmentVariable(value=value) for name, value in values.items()}


def source_key_statements(key: kms.IKey | None) -> list[iam.PolicyStatement]:
    """Return the statements for reading an asset whose bucket has a customer-managed key."""
    if key is None:
        return []
    return [iam.PolicyStatement(sid="SourceKey", actions=["kms:Decrypt"], resources=[key.key_arn])]


def network_statements(scope: Construct, network: EndpointNetwork | None) -> list[iam.PolicyStatement]:
    """Return the statements for a build in a VPC: CodeBuild attaches it to these subnets, and to no others.

    Source, read 2026-11-23: "Allow CodeBuild access to AWS services required to create a VPC network
    interface" in https://docs.aws.amazon.com/codebuild/latest/userguide/auth-and-access-control-iam-identity-based-access-control.html
    """
    if network is None:
        return []
    stack = Stack.of(scope)
    return [
        iam.PolicyStatement(
            sid="Network",  # CodeBuild asks for these on every resource
            actions=[
                "ec2:CreateNetworkInterface",
                "ec2:DeleteNetworkInterface",
                "ec2:DescribeDhcpOptions",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSubnets",
                "ec2:DescribeVpcs",
            ],
            resources=["*"],
        ),
        iam.PolicyStatement(
            sid="NetworkAttach",
            actions=["ec2:CreateNetworkInterfacePermission"],
            resources=[stack.format_arn(service="ec2", resource="network-interface", resource_name="*")],
            conditions={
                "StringEquals": {"ec2:AuthorizedService": CODEBUILD},
                "ArnEquals": {"ec2:Subnet": network.subnet_arns()},
            },
        ),
    ]


def log_statement(log_group: logs.ILogGroup) -> iam.PolicyStatement:
    """Return the statement for writing to a log group."""
    actions = ["logs:CreateLogStream", "logs:PutLogEvents"]
    return iam.PolicyStatement(sid="Logs", actions=actions, resources=[log_group.log_group_arn])


def codebuild_statements(
    *, source: assets.Asset, key: kms.IKey | None, log_group: logs.ILogGroup
) -> list[iam.PolicyStatement]:
    """Return the statements of every build in CodeBuild."""
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
        log_statement(log_group),
    ]


def _fleet(scope: Construct, machine: BuildMachine, choice: ReservedMachines) -> codebuild.Fleet:
    return codebuild.Fleet(
        scope,
        "Fleet",
        base_capacity=choice.base_capacity,
        environment_type=codebuild.EnvironmentType.LINUX_GPU_CONTAINER,
        compute_type=codebuild.FleetComputeType.CUSTOM_INSTANCE_TYPE,
        compute_configuration=codebuild.ComputeConfiguration(
            instance_type=ec2.InstanceType(machine.name), disk=Size.gibibytes(EXTRA_DISK_GB)
        ),
        # On demand there is another GPU, on which the plans would not load.
        overflow_behavior=codebuild.FleetOverflowBehavior.QUEUE,
    )
