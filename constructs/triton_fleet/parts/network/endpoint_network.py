"""The private network of an endpoint: subnets, security groups, and the way to the AWS services it needs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType

import jsii
from aws_cdk import Annotations as Advice
from aws_cdk import ArnFormat, Stack, Token
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from triton_fleet.parts.arguments.checks import account_id
from triton_fleet.parts.arguments.late import LateProblems
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.repository.model_repository import ModelRepository
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report

NETWORK_CALLERS = Check(id="network-callers", source=FROM_ARGUMENTS)

NETWORK_ADMITS = Check(id="network-admits", source=FROM_ARGUMENTS)

NETWORK_ENDPOINT_TWICE = Check(
    id="network-endpoint-twice",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/host-vpc.html",
)
NETWORK_MODELS_UNREACHABLE = Check(
    id="network-models-unreachable",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/host-vpc.html",
)
NETWORK_ROUTE_TABLES = Check(
    id="network-route-tables",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/host-vpc.html",
)

NETWORK_PRIVATE_SUBNETS = Check(
    id="network-private-subnets",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/host-vpc.html",
)

NETWORK_ID = Check(
    id="network-id",
    source="2026-11-23: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/resource-ids.html",
)

_KINDS = {"vpc": "VPC", "subnet": "subnet", "sg": "security group"}

_HTTPS_PORT = 443
_HTTPS = ec2.Port.tcp(_HTTPS_PORT)
_NO_ROUTE_TABLE = "@aws-cdk/aws-ec2:noSubnetRouteTableId"


class VpcService(str, Enum):
    """An AWS service that instances or callers in private subnets reach through a VPC endpoint.

    AWS documents S3 as needed for models to be read. Whether image pulls, logs and metrics of a hosted model
    take the way through the VPC is not documented; the other endpoints are therefore created by default, and
    leaving one out is a saving to try, for each costs money by the hour in each availability zone.
    """

    S3 = "s3"
    """Models, and the layers of images. A gateway: free of charge."""
    ECR_API = "ecr.api"
    """What an image consists of."""
    ECR_DOCKER = "ecr.dkr"
    """Pulling it."""
    LOGS = "logs"
    """The containers' logs."""
    METRICS = "monitoring"
    """Metrics in CloudWatch."""
    KMS = "kms"
    """Decrypting what the repository's key encrypts."""
    RUNTIME = "sagemaker.runtime"
    """Invoking the endpoint from within the VPC: for callers, the instances do not need it."""


_INTERFACES: Mapping[VpcService, tuple[str, ec2.InterfaceVpcEndpointAwsService]] = MappingProxyType(
    {
        VpcService.ECR_API: ("EcrApi", ec2.InterfaceVpcEndpointAwsService.ECR),
        VpcService.ECR_DOCKER: ("EcrDocker", ec2.InterfaceVpcEndpointAwsService.ECR_DOCKER),
        VpcService.LOGS: ("Logs", ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS),
        VpcService.METRICS: ("Metrics", ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_MONITORING),
        VpcService.KMS: ("Kms", ec2.InterfaceVpcEndpointAwsService.KMS),
        VpcService.RUNTIME: ("Runtime", ec2.InterfaceVpcEndpointAwsService.SAGEMAKER_RUNTIME),
    }
)


@jsii.implements(ec2.IConnectable)
@typed
class EndpointNetwork(Construct):
    """Attaches the instances of an endpoint to private subnets of a VPC.

    Nothing may connect to the instances: SageMaker reaches the container by itself, not through the VPC. They
    may open HTTPS connections, which from an isolated subnet lead to the VPC endpoints and nowhere else.
    Builds with a network may also connect to the ports of the proxies and indexes in their environment: give
    them a network of their own, so that instances may not.

    Nothing is looked up, so synthesis needs no account: give a VPC of the app, or one from
    `Vpc.from_vpc_attributes` with its subnets and their route tables. In China some services have another
    name, which the CDK knows if the stack says its region.

    Attributes:
        subnets: The subnets that the instances are attached to.
        s3_endpoint: The gateway endpoint for S3 if it is created here, to allow more than models and images.
        interface_endpoints: The interface endpoints that are created here.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        subnets: Sequence[ec2.ISubnet] | None = None,
        security_groups: Sequence[ec2.ISecurityGroup] = (),
        create_vpc_endpoints: Sequence[VpcService] | None = None,
        existing_vpc_endpoints: Sequence[VpcService] = (),
        vpc_owner: str | None = None,
    ) -> None:
        """Create the security groups and the VPC endpoints.

        Args:
            subnets: Private subnets, such as `vpc.isolated_subnets`. By default all with a route to the
                internet, or all isolated ones if there are none.
            security_groups: Up to five of your own. By default one that lets nothing in and HTTPS out.
            create_vpc_endpoints: The VPC endpoints to create. By default all of VpcService that are not said
                to exist, for instances behind a NAT gateway too: it bills each gigabyte of a model, and the
                gateway endpoint for S3 does not.
            existing_vpc_endpoints: The VPC endpoints that these subnets reach already; see that the policy of
                the one for S3 allows to read the repository.
            vpc_owner: The account that owns the VPC and its subnets, if they are shared with yours. Its route
                tables are then the owner's to change, so S3 belongs to existing_vpc_endpoints.
        """
        super().__init__(scope, construct_id)
        self.vpc = vpc
        self.subnets = (
            tuple(vpc.private_subnets or vpc.isolated_subnets) if subnets is None else tuple(subnets)
        )
        self._owner = vpc_owner
        self._given_groups = tuple(security_groups)
        report = Report(self.node.path)
        existing = list(existing_vpc_endpoints)
        created = (
            [service for service in VpcService if service not in existing]
            if create_vpc_endpoints is None
            else list(create_vpc_endpoints)
        )
        account_id(report.at("vpc_owner"), known(vpc_owner))
        self._check(report, created, existing)
        report.raise_if_any()
        self._advise_on_zones()
        self.security_groups = self._given_groups or (self._own_security_group(),)
        self._connections = ec2.Connections(security_groups=list(self.security_groups))
        self._allows_any = False
        self.s3_endpoint = self._s3_endpoint() if VpcService.S3 in created else None
        self.interface_endpoints = self._interface_endpoints(created)
        LateProblems(self, self._none_allowed)

    @classmethod
    def from_ids(
        cls,
        scope: Construct,
        construct_id: str,
        *,
        vpc_id: str,
        subnet_ids: Sequence[str],
        security_group_ids: Sequence[str] = (),
    ) -> EndpointNetwork:
        """Return the network of private subnets that reach every service already, by their ids.

        No VPC endpoint is created: there is a NAT gateway, or the VPC has the endpoints of VpcService. The
        subnets are in two availability zones or more. By default a new security group lets HTTPS out.
        """
        report = Report(scope.node.path)
        for kind, ids in (("vpc", [vpc_id]), ("subnet", subnet_ids), ("sg", security_group_ids)):
            for each in filter(None, map(known, ids)):
                if not re.fullmatch(rf"{kind}-([0-9a-f]{{8}}|[0-9a-f]{{17}})", each):
                    report.at(f"{kind} id")(
                        NETWORK_ID,
                        f"the {_KINDS[kind]} is {each[:80]!a}",
                        fix=f"copy the id from the console of the VPC, such as {kind}-0123456789abcdef0",
                        why="a name or an ARN stands in no permission or configuration of a network",
                    )
        report.raise_if_any()
        vpc = ec2.Vpc.from_vpc_attributes(
            scope,
            f"{construct_id}Vpc",
            vpc_id=vpc_id,
            # No template contains the zones, so that they need not be known.
            availability_zones=[f"zone-{number}" for number in range(len(subnet_ids))],
            private_subnet_ids=list(subnet_ids),
        )
        for subnet in vpc.private_subnets:  # route tables are needed to create VPC endpoints only
            Advice.of(subnet).acknowledge_warning(_NO_ROUTE_TABLE, "no VPC endpoint is created here")
        groups = [
            ec2.SecurityGroup.from_security_group_id(scope, f"{construct_id}Group{number}", each)
            for number, each in enumerate(security_group_ids)
        ]
        return cls(
            scope,
            construct_id,
            vpc=vpc,
            security_groups=groups,
            create_vpc_endpoints=(),
            existing_vpc_endpoints=tuple(VpcService),
        )

    @property
    def connections(self) -> ec2.Connections:
        """The instances' network connections, such as to a feature store in the VPC."""
        return self._connections

    def _vpc_config(self) -> sagemaker.CfnModel.VpcConfigProperty:
        return sagemaker.CfnModel.VpcConfigProperty(
            subnets=[subnet.subnet_id for subnet in self.subnets],
            security_group_ids=[group.security_group_id for group in self.security_groups],
        )

    def allow_repository(self, repository: ModelRepository) -> None:
        """Let the instances read this repository through the S3 endpoint; done again, it changes nothing.

        The endpoint's policy is narrowed to the repositories that were allowed and to the bucket of image
        layers. Without an S3 endpoint of this network there is nothing to do.
        """
        self._allows_any = True
        if self.s3_endpoint is None:
            return
        for statement in (
            iam.PolicyStatement(
                principals=[iam.AnyPrincipal()],
                actions=["s3:ListBucket"],
                resources=[repository.bucket.bucket_arn],
                conditions=repository.list_condition,
            ),
            iam.PolicyStatement(
                principals=[iam.AnyPrincipal()],
                actions=["s3:GetObject"],
                resources=[repository.artifacts_arn],
            ),
        ):
            self.s3_endpoint.add_to_policy(statement)

    def allow_callers(self, callers: ec2.IConnectable) -> None:
        """Let callers in the VPC invoke through the endpoint for the SageMaker runtime."""
        endpoint = self.interface_endpoints.get(VpcService.RUNTIME)
        if endpoint is None:
            raise NETWORK_CALLERS.error(
                what="callers are to be allowed at a VPC endpoint that is not created here",
                where=self.node.path,
                why="who may connect to a VPC endpoint is said by its own security group",
                fix="create it here, or allow the callers in the security group of the existing one",
            )
        endpoint.connections.allow_from(callers, _HTTPS, "Invokes the endpoint")

    def _statements(self) -> list[iam.PolicyStatement]:
        """Return the statements with which SageMaker can attach instances to these subnets, and to no others.

        AWS asks for all of these on every resource. Describing has no resource-level permissions. Creating
        is limited to these subnets and groups. Changing and deleting are limited to the VPC, because the
        interface's name is not known before. Deleting a permission is not limited further: EC2 does not
        document its condition keys, and a condition on a missing key would deny the call.

        Whoever adds them to a role calls `findings.acknowledge_network_interfaces` for it, and lets the
        endpoint depend on this network, whose VPC endpoints have to be there when an instance starts.

        Source: https://docs.aws.amazon.com/sagemaker/latest/dg/host-vpc.html and the table of EC2's actions
        in the service authorization reference, read on 2026-11-21.
        """
        interfaces = self._arn("network-interface", "*")
        groups = [self._arn("security-group", group.security_group_id) for group in self.security_groups]
        return [
            iam.PolicyStatement(
                sid="NetworkLook",
                actions=[
                    "ec2:DescribeDhcpOptions",
                    "ec2:DescribeNetworkInterfaces",
                    "ec2:DescribeSecurityGroups",
                    "ec2:DescribeSubnets",
                    "ec2:DescribeVpcEndpoints",
                    "ec2:DescribeVpcs",
                ],
                resources=["*"],
            ),
            iam.PolicyStatement(
                sid="NetworkAttach",
                actions=["ec2:CreateNetworkInterface"],
                resources=[interfaces, *self.subnet_arns(), *groups],
            ),
            iam.PolicyStatement(
                sid="NetworkHandOver",
                actions=["ec2:CreateNetworkInterfacePermission", "ec2:DeleteNetworkInterface"],
                resources=[interfaces],
                conditions={"ArnEquals": {"ec2:Vpc": self._arn("vpc", self.vpc.vpc_id, account=self._owner)}},
            ),
            iam.PolicyStatement(
                sid="NetworkTakeBack",
                actions=["ec2:DeleteNetworkInterfacePermission"],
                resources=[interfaces],
            ),
        ]

    def _none_allowed(self, report: Report) -> None:
        """S3 is reached through a policy that lets no repository be read."""
        if self.s3_endpoint is not None and not self._allows_any:
            report(
                NETWORK_ADMITS,
                "the S3 endpoint lets no model repository be read",
                fix="give this network to an endpoint, or call allow_repository(repository)",
                why="the policy of the S3 endpoint would keep every model from being loaded",
            )

    def _check(
        self, report: Report, created: Collection[VpcService], existing: Collection[VpcService]
    ) -> None:
        self._check_subnets(report.at("subnets"))
        services = report.at("create_vpc_endpoints")
        for twice in sorted({each.value for each in created if each in existing}):
            services(
                NETWORK_ENDPOINT_TWICE,
                f"{twice} is in both create_vpc_endpoints and existing_vpc_endpoints",
                fix=f"remove {twice} from one of them",
                why="AWS refuses a second VPC endpoint with the same private name or route",
            )
        isolated = {subnet.node.path for subnet in self.vpc.isolated_subnets}
        reached = VpcService.S3 in (*created, *existing)
        if not reached and isolated & {subnet.node.path for subnet in self.subnets}:
            services(
                NETWORK_MODELS_UNREACHABLE,
                "the isolated subnets cannot reach S3",
                fix="add VpcService.S3 to create_vpc_endpoints, or to existing_vpc_endpoints if there is one",
                why="the endpoint would be InService, but every model download would fail",
            )
        unknown = [subnet.node.path for subnet in self.subnets if not _has_route_table(subnet)]
        if VpcService.S3 in created and unknown:
            report.at("subnets")(
                NETWORK_ROUTE_TABLES,
                f"the route tables of {', '.join(unknown)} are not known",
                fix="give Vpc.from_vpc_attributes the route table ids as well, or add VpcService.S3 to "
                "existing_vpc_endpoints if the VPC already has a gateway endpoint for S3",
                why="a gateway endpoint is a route in each route table",
            )

    def _check_subnets(self, place: Report) -> None:
        every = {subnet.node.path for subnet in self.vpc.public_subnets}
        public = [each.node.path for each in self.subnets if each.node.path in every]
        if public:
            place(
                NETWORK_PRIVATE_SUBNETS,
                f"{', '.join(public)} {'is a public subnet' if len(public) == 1 else 'are public subnets'}",
                fix="use vpc.private_subnets or vpc.isolated_subnets, or remove the subnets",
                why="instances have no public address, so an internet gateway does not help",
            )
        if not self.subnets:
            place(
                NETWORK_PRIVATE_SUBNETS,
                "the VPC has only public subnets" if every else "the VPC lists no subnets",
                fix="add isolated subnets to the VPC (SubnetType.PRIVATE_ISOLATED), which need no NAT gateway"
                if every
                else "give Vpc.from_vpc_attributes the private_subnet_ids or isolated_subnet_ids, with their "
                "route table ids; a look-up needs an account and a region",
                why="SageMaker attaches each instance to a subnet, without a public address",
            )

    def _advise_on_zones(self) -> None:
        zones = {subnet.availability_zone for subnet in self.subnets}
        if len(zones) > 1 or _is_list(self.subnets[0].subnet_id):
            return  # a list that is known only at deployment counts as one subnet here
        Advice.of(self).add_warning_v2(
            "triton-fleet:network-one-zone",
            f"All subnets of {self.node.path} are in one availability zone. AWS asks for two or more, even "
            "for a single instance; with one, the zone's GPU capacity and failures are the endpoint's.",
        )

    def _own_security_group(self) -> ec2.SecurityGroup:
        group = ec2.SecurityGroup(
            self,
            "SecurityGroup",
            vpc=self.vpc,
            description="Instances of a SageMaker endpoint: nothing in, HTTPS out",
            allow_all_outbound=False,
        )
        # To anywhere: the addresses of S3 are a prefix list of the region, which only a look-up could name.
        group.add_egress_rule(ec2.Peer.any_ipv4(), _HTTPS, "AWS services")
        return group

    def _let_out(self, ports: Iterable[int]) -> None:
        """Let builds reach proxies and indexes at these ports; groups that were given stay as they are."""
        if self._given_groups:
            return
        for port in ports:
            if port != _HTTPS_PORT:
                self._connections.allow_to_any_ipv4(ec2.Port.tcp(port), "Proxy or index of builds")

    def _s3_endpoint(self) -> ec2.GatewayVpcEndpoint:
        """The way to S3, for the route tables of these subnets only: another subnet keeps the way it has."""
        endpoint = ec2.GatewayVpcEndpoint(
            self,
            "S3",
            vpc=self.vpc,
            service=ec2.GatewayVpcEndpointAwsService.S3,
            subnets=[ec2.SubnetSelection(subnets=list(self.subnets))],
        )
        stack = Stack.of(self)
        endpoint.add_to_policy(
            iam.PolicyStatement(
                principals=[iam.AnyPrincipal()],
                actions=["s3:GetObject"],
                # Where ECR keeps the layers of images in each region, as its guide on VPC endpoints says:
                # https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html, read 2026-11-21.
                resources=[
                    stack.format_arn(
                        service="s3",
                        region="",
                        account="",
                        resource=f"prod-{stack.region}-starport-layer-bucket",
                        resource_name="*",
                    )
                ],
            )
        )
        return endpoint

    def _interface_endpoints(
        self, created: Collection[VpcService]
    ) -> Mapping[VpcService, ec2.InterfaceVpcEndpoint]:
        """The interface endpoints. All of the VPC resolves their names, so their policies stay open."""
        wanted = {service: made for service, made in _INTERFACES.items() if service in created}
        if not wanted:
            return MappingProxyType({})
        services = self._endpoint_security_group("Services", "what instances of a SageMaker endpoint need")
        for group in self.security_groups:
            services.add_ingress_rule(group, _HTTPS, "Instances of the endpoint")
        endpoints = {}
        for service, (construct_id, aws_service) in wanted.items():
            group = (
                self._endpoint_security_group("Callers", "invoking a SageMaker endpoint")
                if service is VpcService.RUNTIME
                else services
            )
            endpoints[service] = ec2.InterfaceVpcEndpoint(
                self,
                construct_id,
                vpc=self.vpc,
                service=aws_service,
                subnets=ec2.SubnetSelection(subnets=list(self.subnets)),
                security_groups=[group],
                open=False,  # or everything with an address in the VPC could connect
            )
        return MappingProxyType(endpoints)

    def _endpoint_security_group(self, construct_id: str, purpose: str) -> ec2.SecurityGroup:
        return ec2.SecurityGroup(
            self,
            construct_id,
            vpc=self.vpc,
            description=f"VPC endpoints for {purpose}",
            allow_all_outbound=False,  # a VPC endpoint opens no connections
        )

    def subnet_arns(self) -> list[str]:
        """Return the ARNs of the subnets, as a permission for them names them."""
        ids = [subnet.subnet_id for subnet in self.subnets]
        names = ["*"] if any(_is_list(each) for each in ids) else ids
        return [self._arn("subnet", name, account=self._owner) for name in names]

    def _arn(self, resource: str, name: str, *, account: str | None = None) -> str:
        return Stack.of(self).format_arn(
            service="ec2",
            account=account,
            resource=resource,
            resource_name=name,
            arn_format=ArnFormat.SLASH_RESOURCE_NAME,
        )


def _is_list(subnet_id: str) -> bool:
    """Return whether this is a token for a list of ids, known only at deployment."""
    return bool(Token.is_unresolved([subnet_id])) and not Token.is_unresolved(subnet_id)


def _has_route_table(subnet: ec2.ISubnet) -> bool:
    """Return whether the subnet's route table is known. An imported subnet without one raises on access."""
    try:
        return bool(subnet.route_table.route_table_id)
    except RuntimeError:
        return False
