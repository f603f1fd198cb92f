"""The template of a VPC with a public and a private subnet, as the CDK writes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

VPC = {"Ref": "Vpc"}
EVERYWHERE = "0.0.0.0/0"


def network(*, tag: str, port: int) -> dict[str, Any]:
    """Return a template in which every taggable resource has a tag, and a group of servers opens a port."""
    subnets = {**_subnet("Public", "10.0.0.0/18", tag=tag), **_subnet("Private", "10.0.128.0/18", tag=tag)}
    parts = [*subnets.items(), *_gateways(tag), *_endpoints(tag), *_groups(tag, port)]
    vpc = {"CidrBlock": "10.0.0.0/16", "EnableDnsHostnames": True, "EnableDnsSupport": True, **_tags(tag)}
    machine = {"ImageId": "ami-12c6146b", "UserData": {"Fn::Base64": "ls"}, **_tags(tag)}
    return {"Resources": {"Vpc": _ec2("VPC", vpc), **dict(parts), "Machine": _ec2("Instance", machine)}}


def _ec2(kind: str, properties: dict[str, Any], *after: str) -> dict[str, Any]:
    found = {"Type": f"AWS::EC2::{kind}", "Properties": properties}
    return {**found, "DependsOn": list(after)} if after else found


def _tags(tag: str) -> dict[str, Any]:
    return {"Tags": [{"Key": "Name", "Value": "S/Vpc"}, {"Key": "stage", "Value": tag}]}


def _subnet(name: str, block: str, *, tag: str) -> dict[str, Any]:
    subnet = {
        "AvailabilityZone": "us-east-1a",
        "CidrBlock": block,
        "MapPublicIpOnLaunch": name == "Public",
        "VpcId": VPC,
        **_tags(tag),
    }
    table = {"RouteTableId": {"Ref": f"{name}Table"}}
    return {
        f"{name}Subnet": _ec2("Subnet", subnet),
        f"{name}Table": _ec2("RouteTable", {"VpcId": VPC, **_tags(tag)}),
        f"{name}Association": _ec2(
            "SubnetRouteTableAssociation", {**table, "SubnetId": {"Ref": f"{name}Subnet"}}
        ),
    }


def _gateways(tag: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "Internet", _ec2("InternetGateway", _tags(tag))
    yield "Attachment", _ec2("VPCGatewayAttachment", {"InternetGatewayId": {"Ref": "Internet"}, "VpcId": VPC})
    to_internet = {"DestinationCidrBlock": EVERYWHERE, "GatewayId": {"Ref": "Internet"}}
    route = {**to_internet, "RouteTableId": {"Ref": "PublicTable"}}
    yield "PublicRoute", _ec2("Route", route, "Attachment")
    yield "Address", _ec2("EIP", {"Domain": "vpc", **_tags(tag)})
    nat = {"AllocationId": {"Fn::GetAtt": ["Address", "AllocationId"]}, "SubnetId": {"Ref": "PublicSubnet"}}
    yield "Nat", _ec2("NatGateway", {**nat, **_tags(tag)}, "PublicRoute", "PublicAssociation")
    to_nat = {"DestinationCidrBlock": EVERYWHERE, "NatGatewayId": {"Ref": "Nat"}}
    yield "PrivateRoute", _ec2("Route", {**to_nat, "RouteTableId": {"Ref": "PrivateTable"}})


def _endpoints(tag: str) -> Iterator[tuple[str, dict[str, Any]]]:
    s3 = {
        "RouteTableIds": [{"Ref": "PrivateTable"}, {"Ref": "PublicTable"}],
        "ServiceName": {"Fn::Join": ["", ["com.amazonaws.", {"Ref": "AWS::Region"}, ".s3"]]},
        "VpcEndpointType": "Gateway",
        "VpcId": VPC,
    }
    logs = {
        "PrivateDnsEnabled": True,
        "SecurityGroupIds": [{"Fn::GetAtt": ["LogsGroup", "GroupId"]}],
        "ServiceName": "com.amazonaws.us-east-1.logs",
        "SubnetIds": [{"Ref": "PrivateSubnet"}],
        "VpcEndpointType": "Interface",
        "VpcId": VPC,
    }
    block = {"Fn::GetAtt": ["Vpc", "CidrBlock"]}
    ingress = {"CidrIp": block, "Description": {"Fn::Join": ["", ["from ", block, ":443"]]}, **_tcp(443)}
    yield "S3", _ec2("VPCEndpoint", {**s3, **_tags(tag)})
    yield "LogsGroup", _group("logs", tag, SecurityGroupIngress=[ingress])
    yield "Logs", _ec2("VPCEndpoint", {**logs, **_tags(tag)})


def _groups(tag: str, port: int) -> Iterator[tuple[str, dict[str, Any]]]:
    callers, servers = ({"Fn::GetAtt": [name, "GroupId"]} for name in ("Callers", "Servers"))
    yield "Callers", _group("callers", tag)
    yield "Servers", _group("servers", tag, SecurityGroupIngress=[{"CidrIp": EVERYWHERE, **_tcp(port)}])
    egress = {"GroupId": callers, "DestinationSecurityGroupId": servers, **_tcp(443)}
    yield "CallersToServers", _ec2("SecurityGroupEgress", egress)
    ingress = {"GroupId": servers, "SourceSecurityGroupId": callers, **_tcp(443)}
    yield "ServersFromCallers", _ec2("SecurityGroupIngress", ingress)


def _group(name: str, tag: str, **rules: Any) -> dict[str, Any]:
    return _ec2("SecurityGroup", {"GroupDescription": name, "VpcId": VPC, **rules, **_tags(tag)})


def _tcp(port: int) -> dict[str, Any]:
    return {"IpProtocol": "tcp", "FromPort": port, "ToPort": port}
