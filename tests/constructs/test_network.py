from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import Fn, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Annotations, Match, Template

from tests.reported import reported
from triton_fleet import FleetError, ModelRepository, MultiModelEndpoint, Placement
from triton_fleet.parts.network.endpoint_network import EndpointNetwork, VpcService

ENDPOINT = "AWS::EC2::VPCEndpoint"
ALL = {f".{service.value}" for service in VpcService}


@pytest.fixture
def vpc(stack: Stack) -> ec2.Vpc:
    """A VPC of isolated subnets in two zones, without any way out."""
    return ec2.Vpc(
        stack,
        "Vpc",
        max_azs=2,
        nat_gateways=0,
        subnet_configuration=[
            ec2.SubnetConfiguration(name="Gpu", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
        ],
        restrict_default_security_group=False,
    )


@pytest.fixture
def network(stack: Stack, vpc: ec2.Vpc, repository: ModelRepository) -> EndpointNetwork:
    """The network of one statement, given to an endpoint."""
    network = EndpointNetwork(stack, "Network", vpc=vpc)
    network.allow_repository(repository)
    return network


def _imported(scope: Stack, **subnets: list[str]) -> ec2.IVpc:
    return ec2.Vpc.from_vpc_attributes(
        scope, "Imported", vpc_id="vpc-1", availability_zones=["eu-west-1a", "eu-west-1b"], **subnets
    )


def _services(stack: Stack) -> dict[str, dict[str, Any]]:
    """The VPC endpoints by the last part of their service's name."""
    found = Template.from_stack(stack).find_resources(ENDPOINT).values()
    return {each["Properties"]["ServiceName"]["Fn::Join"][1][-1]: each["Properties"] for each in found}


def test_subnets_with_a_way_out_are_preferred_and_others_can_be_chosen(stack: Stack) -> None:
    vpc = _imported(stack, private_subnet_ids=["p1", "p2"], isolated_subnet_ids=["i1", "i2"])
    there = list(VpcService)
    found = EndpointNetwork(stack, "Found", vpc=vpc, existing_vpc_endpoints=there)
    chosen = EndpointNetwork(
        stack, "Chosen", vpc=vpc, subnets=vpc.isolated_subnets, existing_vpc_endpoints=there
    )

    assert stack.resolve(found._vpc_config())["subnets"] == ["p1", "p2"]
    assert stack.resolve(chosen._vpc_config())["subnets"] == ["i1", "i2"]


def test_nothing_may_connect_to_the_instances_and_they_open_https_only(
    network: EndpointNetwork, stack: Stack
) -> None:
    groups = Template.from_stack(stack).find_resources("AWS::EC2::SecurityGroup")
    (own,) = (each["Properties"] for name, each in groups.items() if name.startswith("NetworkSecurityGroup"))
    ingress = Template.from_stack(stack).find_resources("AWS::EC2::SecurityGroupIngress").values()

    assert "SecurityGroupIngress" not in own
    assert all(
        each["Properties"]["GroupId"]["Fn::GetAtt"][0].startswith("NetworkServices") for each in ingress
    )
    assert [
        (rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) for rule in own["SecurityGroupEgress"]
    ] == [("tcp", 443, 443)]


def test_own_security_groups_take_the_place_of_ours(stack: Stack, vpc: ec2.Vpc) -> None:
    given = ec2.SecurityGroup.from_security_group_id(stack, "Given", "sg-1")
    network = EndpointNetwork(stack, "Network", vpc=vpc, security_groups=[given])

    assert stack.resolve(network._vpc_config())["securityGroupIds"] == ["sg-1"]
    assert [group.security_group_id for group in network.connections.security_groups] == ["sg-1"]


def test_every_service_gets_its_endpoint_by_default(network: EndpointNetwork, stack: Stack) -> None:
    services = _services(stack)

    assert set(services) == ALL
    assert services[".s3"]["VpcEndpointType"] == "Gateway"
    assert all(each["PrivateDnsEnabled"] for name, each in services.items() if name != ".s3")


@pytest.mark.parametrize(("asked", "created"), [([VpcService.KMS], {".kms"}), (None, ALL - {".s3"})])
def test_what_is_asked_for_is_created_or_all_that_is_not_said_to_exist(
    stack: Stack, vpc: ec2.Vpc, asked: list[VpcService] | None, created: set[str]
) -> None:
    EndpointNetwork(stack, "N", vpc=vpc, create_vpc_endpoints=asked, existing_vpc_endpoints=[VpcService.S3])

    assert set(_services(stack)) == created


def test_s3_leads_to_the_admitted_models_and_to_image_layers_only(
    network: EndpointNetwork, repository: ModelRepository, stack: Stack
) -> None:
    network.allow_repository(repository)
    layers, listing, reading = _services(stack)[".s3"]["PolicyDocument"]["Statement"]

    assert layers["Resource"]["Fn::Join"][1][-2:] == [{"Ref": "AWS::Region"}, "-starport-layer-bucket/*"]
    assert listing["Condition"] == {"StringLikeIfExists": {"s3:prefix": ["models", "models/*"]}}
    assert reading["Resource"]["Fn::Join"][1][-1] == "/models/*"
    assert {layers["Action"], listing["Action"], reading["Action"]} == {"s3:GetObject", "s3:ListBucket"}


def test_a_way_to_s3_that_leads_to_no_models_is_found_at_synthesis(stack: Stack, vpc: ec2.Vpc) -> None:
    EndpointNetwork(stack, "Network", vpc=vpc)

    with pytest.raises(RuntimeError, match="lets no model repository be read"):
        Template.from_stack(stack)


def test_only_the_instances_reach_the_endpoints_and_nobody_the_one_for_callers(
    network: EndpointNetwork, stack: Stack
) -> None:
    (ingress,) = Template.from_stack(stack).find_resources("AWS::EC2::SecurityGroupIngress").values()
    (callers,) = network.interface_endpoints[VpcService.RUNTIME].connections.security_groups

    assert ingress["Properties"]["FromPort"] == ingress["Properties"]["ToPort"] == 443
    assert ingress["Properties"]["SourceSecurityGroupId"]["Fn::GetAtt"][0].startswith("NetworkSecurityGroup")
    assert stack.resolve(callers.security_group_id) != ingress["Properties"]["GroupId"]


def test_callers_are_let_in_by_name(network: EndpointNetwork, stack: Stack, vpc: ec2.Vpc) -> None:
    search = ec2.SecurityGroup(stack, "Search", vpc=vpc)
    network.allow_callers(search)

    Template.from_stack(stack).has_resource_properties(
        "AWS::EC2::SecurityGroupIngress",
        {
            "GroupId": {"Fn::GetAtt": [Match.string_like_regexp("NetworkCallers"), "GroupId"]},
            "SourceSecurityGroupId": {"Fn::GetAtt": [Match.string_like_regexp("Search"), "GroupId"]},
            "ToPort": 443,
        },
    )


def test_callers_need_an_endpoint_of_this_network(stack: Stack, vpc: ec2.Vpc) -> None:
    network = EndpointNetwork(stack, "Network", vpc=vpc, existing_vpc_endpoints=[VpcService.RUNTIME])
    group = ec2.SecurityGroup(stack, "Search", vpc=vpc)

    with reported("network-callers"):
        network.allow_callers(group)


def test_the_role_attaches_to_these_subnets_and_groups_only(network: EndpointNetwork, stack: Stack) -> None:
    look, attach, hand_over, take_back = stack.resolve([each.to_json() for each in network._statements()])
    ends = [str(resource["Fn::Join"][1][6:]) for resource in attach["Resource"]]

    assert {each.removeprefix("ec2:Describe") for each in look["Action"]} == {
        *("DhcpOptions", "NetworkInterfaces", "SecurityGroups", "Subnets", "VpcEndpoints", "Vpcs")
    }
    assert look["Resource"] == "*"
    assert attach["Action"] == "ec2:CreateNetworkInterface"
    assert hand_over["Action"] == ["ec2:CreateNetworkInterfacePermission", "ec2:DeleteNetworkInterface"]
    assert len(ends) == 4
    assert sum("subnet" in str(resource) for resource in attach["Resource"]) == 2
    assert hand_over["Condition"]["ArnEquals"]["ec2:Vpc"]["Fn::Join"][1][-2] == ":vpc/"
    assert take_back["Action"] == "ec2:DeleteNetworkInterfacePermission"
    assert take_back["Resource"]["Fn::Join"][1][-1] == ":network-interface/*"


def test_a_shared_vpc_is_named_with_the_account_that_owns_it(stack: Stack) -> None:
    network = EndpointNetwork(
        stack,
        "Network",
        vpc=_imported(stack, private_subnet_ids=["p1", "p2"]),
        existing_vpc_endpoints=list(VpcService),
        vpc_owner="111122223333",
    )
    _, attach, hand_over, _ = stack.resolve([each.to_json() for each in network._statements()])
    own, *_ = attach["Resource"]

    assert ":111122223333:subnet/p1" in attach["Resource"][1]["Fn::Join"][1][-1]
    assert ":111122223333:vpc/vpc-1" in hand_over["Condition"]["ArnEquals"]["ec2:Vpc"]["Fn::Join"][1][-1]
    assert {"Ref": "AWS::AccountId"} in own["Fn::Join"][1]


def test_an_unsplit_list_of_subnets_is_let_through_with_any_subnet_of_the_vpc(stack: Stack) -> None:
    vpc = ec2.Vpc.from_vpc_attributes(
        stack,
        "Imported",
        vpc_id="vpc-1",
        availability_zones=Fn.split(",", Fn.import_value("zones")),
        private_subnet_ids=Fn.split(",", Fn.import_value("subnets")),
    )
    network = EndpointNetwork(stack, "Network", vpc=vpc, existing_vpc_endpoints=list(VpcService))
    attach = stack.resolve(network._statements()[1].to_json())

    assert stack.resolve(network._vpc_config())["subnets"] == {
        "Fn::Split": [",", {"Fn::ImportValue": "subnets"}]
    }
    assert attach["Resource"][1]["Fn::Join"][1][-1].endswith(":subnet/*")
    Annotations.from_stack(stack).has_no_warning("/Fleet/Network", Match.any_value())


def test_one_availability_zone_is_advised_against(stack: Stack, vpc: ec2.Vpc) -> None:
    EndpointNetwork(
        stack,
        "Network",
        vpc=vpc,
        subnets=vpc.isolated_subnets[:1],
        create_vpc_endpoints=[],
        existing_vpc_endpoints=[VpcService.S3],
    )

    Annotations.from_stack(stack).has_warning(
        "/Fleet/Network", Match.string_like_regexp("one availability zone")
    )


@pytest.mark.parametrize(
    ("subnets", "created", "existing", "rules"),
    [
        ("public_subnet_ids", [], [VpcService.S3], ["network-private-subnets"]),
        ("isolated_subnet_ids", [VpcService.S3], [], ["network-route-tables"]),
        (
            "isolated_subnet_ids",
            [VpcService.KMS],
            [VpcService.KMS],
            ["network-endpoint-twice", "network-models-unreachable"],
        ),
    ],
)
def test_subnets_that_cannot_read_models_are_refused(
    subnets: str, created: list[VpcService], existing: list[VpcService], rules: list[str], stack: Stack
) -> None:
    vpc = _imported(stack, **{subnets: ["a", "b"]})

    with reported(*rules):
        EndpointNetwork(
            stack, "Network", vpc=vpc, create_vpc_endpoints=created, existing_vpc_endpoints=existing
        )


def test_public_subnets_are_refused_among_private_ones(stack: Stack) -> None:
    vpc = _imported(stack, public_subnet_ids=["a", "b"], private_subnet_ids=["c", "d"])
    chosen = [*vpc.public_subnets, *vpc.private_subnets]
    with reported("network-private-subnets"):
        EndpointNetwork(stack, "Network", vpc=vpc, subnets=chosen, existing_vpc_endpoints=[VpcService.S3])


def test_a_vpc_that_names_no_subnets_is_refused_with_the_way_to_name_them(stack: Stack) -> None:
    with pytest.raises(FleetError, match="from_vpc_attributes") as raised:
        EndpointNetwork(stack, "Network", vpc=_imported(stack))

    assert raised.value.problems[0].where == "subnets of Fleet/Network"


def test_an_endpoint_waits_for_its_vpc_endpoints(
    stack: Stack, vpc: ec2.Vpc, repository: ModelRepository
) -> None:
    network = EndpointNetwork(stack, "Network", vpc=vpc)
    MultiModelEndpoint(stack, "Endpoint", repository=repository, placement=Placement(network=network))

    template = Template.from_stack(stack)
    (endpoint,) = template.find_resources("AWS::SageMaker::Endpoint").values()
    assert set(template.find_resources(ENDPOINT)) <= set(endpoint["DependsOn"])


@pytest.mark.parametrize(
    "given",
    [
        {"vpc_id": "my-vpc"},
        {"subnet_ids": ["vpc-0123456789abcdef0"]},
        {"security_group_ids": ["sg-0123", "sg-0123456789abcdef0"]},
    ],
)
def test_an_id_of_another_kind_is_refused(stack: Stack, given: dict[str, Any]) -> None:
    right = {"vpc_id": "vpc-01234567", "subnet_ids": ["subnet-0123456789abcdef0"]}

    with reported("network-id"):
        EndpointNetwork.from_ids(stack, "Network", **right | given)


def test_subnets_by_their_ids_give_no_warning_that_no_one_can_act_on(stack: Stack) -> None:
    subnets = [f"subnet-0123456789abcdef{number}" for number in (0, 1)]
    EndpointNetwork.from_ids(stack, "Network", vpc_id="vpc-0123456789abcdef0", subnet_ids=subnets)

    Annotations.from_stack(stack).has_no_warning("*", Match.any_value())
