"""AWS::EC2: the parts of a VPC, and instances. Tags, rules and few other properties can change in place."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from botocore import xform_name

from embedded_aws.cloudformation.resource import (
    AbsentError,
    Call,
    ConfiguredType,
    Identity,
    Properties,
    UnsupportedUpdateError,
    changed,
    changed_tags,
    without,
)

_GROUP_NAME_LIMIT = 255
# The key of what contains a resource, if that is read instead.
_CONTAINER = {"AssociationId": "RouteTableId"}
_NOUN = {"AllocationId": "address", "GroupId": "security_group"}


class NetworkType(ConfiguredType):
    def __init__(self, name: str, *keys: str, methods: str = "", settings: str = "") -> None:
        self.name = f"AWS::EC2::{name}"
        self._keys, self._settings = keys, frozenset(settings.split())
        self._create, self._delete = (methods or f"create_{_noun(keys[0])} delete_{_noun(keys[0])}").split()

    def begin(self, call: Call, properties: Properties) -> Identity:
        answer = call.ask("ec2", self._create, without(properties, "Tags", *self._settings))
        inner = [each for each in answer.values() if isinstance(each, Mapping) and self._keys[0] in each]
        attributes = {name: value for name, value in (*inner, answer)[0].items() if isinstance(value, str)}
        known = {**properties, **attributes}
        physical_id = attributes.get("PublicIp") or "|".join(known[key] for key in self._keys)
        return Identity(physical_id=physical_id, attributes=attributes)

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        for name in sorted(changed(before, after) & after.keys() & self._settings):
            self.set(call, identity, name, before.get(name), after[name])
        tagged = [identity.attributes.get("AllocationId", identity.physical_id)]
        ec2 = call.client("ec2")
        put, removed = changed_tags(before, after)
        if put:
            ec2.create_tags(Resources=tagged, Tags=[{"Key": key, "Value": put[key]} for key in put])
        if removed:
            ec2.delete_tags(Resources=tagged, Tags=[{"Key": key} for key in removed])

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        if fixed := changed(before, after) - (after.keys() & self._settings) - {"Tags"}:
            msg = f"the embedded AWS cannot change {', '.join(sorted(fixed))} of {self.name}"
            raise UnsupportedUpdateError(msg)
        return super().update(call, identity, before, after)

    def set(self, call: Call, identity: Identity, name: str, before: Any, after: Any) -> None:
        """Change a setting: rules, a policy or a switch."""
        chosen = {self._keys[0]: identity.physical_id}
        if isinstance(after, list):
            _change(call, identity.physical_id, f"revoke_{xform_name(name)}", before)
            _change(call, identity.physical_id, f"authorize_{xform_name(name)}", after)
        elif name == "PolicyDocument":
            call.ask("ec2", "modify_vpc_endpoint", {**chosen, name: after})
        else:
            call.ask("ec2", f"modify_{_noun(self._keys[0])}_attribute", {**chosen, name: {"Value": after}})

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        known = {**properties, **identity.attributes}
        if self._delete.endswith(("endpoints", "instances")):
            call.ask("ec2", self._delete, {f"{self._keys[0]}s": [identity.physical_id]})
        else:
            call.ask("ec2", self._delete, {key: known[key] for key in self._keys})

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        key = _CONTAINER.get(self._keys[0], self._keys[0])
        wanted = {**properties, **identity.attributes}[key]
        noun = _noun(key)
        answer = call.ask(
            "ec2", f"describe_{noun}{'es' if noun == 'address' else 's'}", {f"{key}s": [wanted]}
        )
        if not any(each for each in answer.values() if isinstance(each, list)):
            raise AbsentError(f"{key} {wanted} does not exist")


class Instance(NetworkType):
    """An instance, which runs nothing. moto's own tests deploy it."""

    def begin(self, call: Call, properties: Properties) -> Identity:
        wanted = {**without(properties, "Tags"), "MinCount": 1, "MaxCount": 1}
        if "UserData" in wanted:  # the client encodes it again
            wanted["UserData"] = base64.b64decode(wanted["UserData"]).decode()
        [made] = call.ask("ec2", self._create, wanted)["Instances"]
        attributes = {"InstanceId": made["InstanceId"], "PrivateIp": made["PrivateIpAddress"]}
        return Identity(physical_id=made["InstanceId"], attributes=attributes)


class SecurityGroup(NetworkType):
    """A security group. Its own rules for egress replace the default one."""

    def begin(self, call: Call, properties: Properties) -> Identity:
        name = properties.get("GroupName") or call.unique_name(limit=_GROUP_NAME_LIMIT)
        given = {**without(properties, "GroupDescription"), "GroupName": name}
        identity = super().begin(call, {**given, "Description": properties["GroupDescription"]})
        if "SecurityGroupEgress" in properties:
            # In a VPC that does not exist here, a group has no default rule.
            ec2, group = call.client("ec2"), identity.physical_id
            [made] = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"]
            if made["IpPermissionsEgress"]:
                ec2.revoke_security_group_egress(GroupId=group, IpPermissions=made["IpPermissionsEgress"])
        return identity


class SecurityGroupRule(NetworkType):
    def begin(self, call: Call, properties: Properties) -> Identity:
        [rule] = _change(call, properties["GroupId"], self._create, [properties])["SecurityGroupRules"]
        attributes = {self._keys[0]: rule[self._keys[0]]}
        return Identity(physical_id=rule[self._keys[0]], attributes=attributes)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        _change(call, properties["GroupId"], self._delete, [properties])


def _noun(key: str) -> str:
    return _NOUN.get(key, xform_name(key.removesuffix("Id")))


def _change(call: Call, group: str, method: str, rules: Any) -> dict[str, Any]:
    permissions = [_permission(rule) for rule in rules or ()]
    return call.ask("ec2", method, {"GroupId": group, "IpPermissions": permissions}) if permissions else {}


def _permission(rule: Mapping[str, Any]) -> dict[str, Any]:
    described = {"Description": rule["Description"]} if "Description" in rule else {}
    permission = {name: rule[name] for name in ("IpProtocol", "FromPort", "ToPort") if name in rule}
    group = rule.get("SourceSecurityGroupId") or rule.get("DestinationSecurityGroupId")
    if group:
        return {**permission, "UserIdGroupPairs": [{"GroupId": group, **described}]}
    kind, name = ("Ipv6Ranges", "CidrIpv6") if "CidrIpv6" in rule else ("IpRanges", "CidrIp")
    return {**permission, kind: [{name: rule[name], **described}]}


_EGRESS = "authorize_security_group_egress revoke_security_group_egress"
_INGRESS = "authorize_security_group_ingress revoke_security_group_ingress"
_ATTACH = "attach_internet_gateway detach_internet_gateway"
_ENDPOINT = "create_vpc_endpoint delete_vpc_endpoints"

TYPES = (
    NetworkType("EIP", "AllocationId", methods="allocate_address release_address"),
    Instance("Instance", "InstanceId", methods="run_instances terminate_instances"),
    NetworkType("InternetGateway", "InternetGatewayId"),
    NetworkType("NatGateway", "NatGatewayId"),
    NetworkType("Route", "RouteTableId", "DestinationCidrBlock", methods="create_route delete_route"),
    NetworkType("RouteTable", "RouteTableId"),
    SecurityGroup("SecurityGroup", "GroupId", settings="SecurityGroupEgress SecurityGroupIngress"),
    SecurityGroupRule("SecurityGroupEgress", "SecurityGroupRuleId", methods=_EGRESS),
    SecurityGroupRule("SecurityGroupIngress", "SecurityGroupRuleId", methods=_INGRESS),
    NetworkType("Subnet", "SubnetId", settings="MapPublicIpOnLaunch"),
    NetworkType(
        "SubnetRouteTableAssociation",
        "AssociationId",
        methods="associate_route_table disassociate_route_table",
    ),
    NetworkType("VPC", "VpcId", settings="EnableDnsHostnames EnableDnsSupport"),
    NetworkType("VPCEndpoint", "VpcEndpointId", methods=_ENDPOINT, settings="PolicyDocument"),
    NetworkType("VPCGatewayAttachment", "InternetGatewayId", "VpcId", methods=_ATTACH),
)
