"""AWS::IAM, AWS::KMS and AWS::SSM: roles, policies, identity providers, keys and parameters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from embedded_aws.cloudformation.resource import (
    AbsentError,
    ApiType,
    Call,
    Client,
    ConfiguredType,
    Identity,
    Properties,
    PutType,
    changed,
    retag,
    true,
    without,
)

_THUMBPRINT = 40  # hexadecimal digits
_SESSION_S = 3600
# The holders of a policy: the property that lists them, and their name in the API's operations.
_HOLDERS = {"Roles": "role", "Users": "user", "Groups": "group"}


class Role(ConfiguredType):
    name, service = "AWS::IAM::Role", "iam"
    keys, reads, deletes = "RoleName", "get_role", "delete_role"
    naming, limit = "RoleName", 64
    supports = (
        "Path AssumeRolePolicyDocument Description MaxSessionDuration PermissionsBoundary ManagedPolicyArns "
        "Policies"
    )

    def begin(self, call: Call, properties: Properties) -> Identity:
        name = self.named(call, properties)
        role = call.client("iam").create_role(
            RoleName=name,
            Path=properties.get("Path", "/"),
            AssumeRolePolicyDocument=json.dumps(properties["AssumeRolePolicyDocument"]),
        )["Role"]
        return Identity(physical_id=name, attributes={"Arn": role["Arn"], "RoleId": role["RoleId"]})

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        iam, role, differing = call.client("iam"), identity.physical_id, changed(before, after)
        if before and "AssumeRolePolicyDocument" in differing:
            document = json.dumps(after["AssumeRolePolicyDocument"])
            iam.update_assume_role_policy(RoleName=role, PolicyDocument=document)
        if differing & {"Description", "MaxSessionDuration"}:
            iam.update_role(
                RoleName=role,
                Description=after.get("Description", ""),
                MaxSessionDuration=int(after.get("MaxSessionDuration", _SESSION_S)),
            )
        if "PermissionsBoundary" in differing and "PermissionsBoundary" in after:
            iam.put_role_permissions_boundary(RoleName=role, PermissionsBoundary=after["PermissionsBoundary"])
        elif "PermissionsBoundary" in differing:
            iam.delete_role_permissions_boundary(RoleName=role)
        _set_policies(iam, role, before, after)
        retag(iam, before, after, tag="tag_role", untag="untag_role", RoleName=role)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Remove the role's policies, then delete it: IAM refuses to delete a role with policies."""
        iam, role = call.client("iam"), identity.physical_id
        for attached in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]:
            iam.detach_role_policy(RoleName=role, PolicyArn=attached["PolicyArn"])
        own = {policy["PolicyName"] for policy in properties.get("Policies", ())}
        for inline in own.intersection(iam.list_role_policies(RoleName=role)["PolicyNames"]):
            iam.delete_role_policy(RoleName=role, PolicyName=inline)
        iam.delete_role(RoleName=role)


def _set_policies(iam: Client, role: str, before: Properties, after: Properties) -> None:
    old, new = before.get("ManagedPolicyArns", ()), after.get("ManagedPolicyArns", ())
    for arn in new:
        if arn not in old:
            iam.attach_role_policy(RoleName=role, PolicyArn=arn)
    for arn in old:
        if arn not in new:
            iam.detach_role_policy(RoleName=role, PolicyArn=arn)
    wanted = {policy["PolicyName"]: policy["PolicyDocument"] for policy in after.get("Policies", ())}
    for name, document in wanted.items():
        iam.put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=json.dumps(document))
    for name in (policy["PolicyName"] for policy in before.get("Policies", ())):
        if name not in wanted:
            iam.delete_role_policy(RoleName=role, PolicyName=name)


def _holders(properties: Properties) -> Iterator[tuple[str, str]]:
    for listing, kind in _HOLDERS.items():
        yield from ((kind, name) for name in properties.get(listing, ()))


def _act(iam: Client, verb: str, holder: tuple[str, str], **arguments: Any) -> None:
    kind, name = holder
    getattr(iam, f"{verb}_{kind}_policy")(**{f"{kind.title()}Name": name}, **arguments)


class Policy(ApiType):
    name, service = "AWS::IAM::Policy", "iam"
    supports = f"PolicyName PolicyDocument {' '.join(_HOLDERS)}"

    def create(self, call: Call, properties: Properties) -> Identity:
        self.check(properties)
        self._write(call, properties)
        name = call.unique_name(limit=128)
        return Identity(physical_id=name, attributes={"Id": name})

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        self._write(call, after)
        kept = set(_holders(after)) if before["PolicyName"] == after["PolicyName"] else set()
        for holder in set(_holders(before)) - kept:
            _act(call.client("iam"), "delete", holder, PolicyName=before["PolicyName"])
        return identity

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        for holder in _holders(properties):
            _act(call.client("iam"), "delete", holder, PolicyName=properties["PolicyName"])

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        for holder in _holders(properties):
            _act(call.client("iam"), "get", holder, PolicyName=properties["PolicyName"])

    def _write(self, call: Call, properties: Properties) -> None:
        policy = {"PolicyName": properties["PolicyName"]}
        document = json.dumps(properties["PolicyDocument"])
        for holder in _holders(properties):
            _act(call.client("iam"), "put", holder, **policy, PolicyDocument=document)


class ManagedPolicy(ConfiguredType):
    name, service = "AWS::IAM::ManagedPolicy", "iam"
    keys, reads, deletes = "PolicyArn", "get_policy", "delete_policy"
    naming, limit = "ManagedPolicyName", 128
    supports = f"Path Description PolicyDocument {' '.join(_HOLDERS)}"

    def begin(self, call: Call, properties: Properties) -> Identity:
        policy = call.client("iam").create_policy(
            PolicyName=self.named(call, properties),
            Path=properties.get("Path", "/"),
            Description=properties.get("Description", ""),
            PolicyDocument=json.dumps(properties["PolicyDocument"]),
        )["Policy"]
        attributes = {"PolicyArn": policy["Arn"], "PolicyId": policy["PolicyId"]}
        return Identity(physical_id=policy["Arn"], attributes=attributes)

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        iam, arn = call.client("iam"), identity.physical_id
        if before and before["PolicyDocument"] != after["PolicyDocument"]:
            _drop_versions(iam, arn)
            document = json.dumps(after["PolicyDocument"])
            iam.create_policy_version(PolicyArn=arn, PolicyDocument=document, SetAsDefault=True)
        old, new = set(_holders(before)), set(_holders(after))
        for holder in sorted(new - old):
            _act(iam, "attach", holder, PolicyArn=arn)
        for holder in sorted(old - new):
            _act(iam, "detach", holder, PolicyArn=arn)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        iam, arn = call.client("iam"), identity.physical_id
        for holder in _holders(properties):
            _act(iam, "detach", holder, PolicyArn=arn)
        _drop_versions(iam, arn)
        iam.delete_policy(PolicyArn=arn)


def _drop_versions(iam: Client, arn: str) -> None:
    """Delete the versions that are not the default: IAM keeps at most five."""
    for version in iam.list_policy_versions(PolicyArn=arn)["Versions"]:
        if not version["IsDefaultVersion"]:
            iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])


class OIDCProvider(ConfiguredType):
    name, service, keys = "AWS::IAM::OIDCProvider", "iam", "OpenIDConnectProviderArn"
    reads, deletes = "get_open_id_connect_provider", "delete_open_id_connect_provider"
    supports = "Url ClientIdList ThumbprintList"

    def begin(self, call: Call, properties: Properties) -> Identity:
        made = call.client("iam").create_open_id_connect_provider(
            Url=properties["Url"],
            ClientIDList=properties.get("ClientIdList", []),
            ThumbprintList=properties.get("ThumbprintList", ["0" * _THUMBPRINT]),  # IAM finds it out itself
        )
        arn = str(made["OpenIDConnectProviderArn"])
        return Identity(physical_id=arn, attributes={"Arn": arn})

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        if before and before.get("ClientIdList") != after.get("ClientIdList"):
            # moto cannot change them; the provider of the same URL has the same ARN.
            self.delete(call, identity, before)
            self.begin(call, after)
            before = {}
        tag, owner = "tag_open_id_connect_provider", {self.keys: identity.physical_id}
        retag(call.client("iam"), before, after, tag=tag, untag=f"un{tag}", **owner)


class Key(ConfiguredType):
    name, service = "AWS::KMS::Key", "kms"
    keys, reads = "KeyId", "describe_key"
    supports = (
        "Description KeyPolicy EnableKeyRotation RotationPeriodInDays Enabled KeySpec KeyUsage MultiRegion "
        "Origin PendingWindowInDays BypassPolicyLockoutSafetyCheck"
    )

    def begin(self, call: Call, properties: Properties) -> Identity:
        fixed = {name: properties[name] for name in ("KeySpec", "KeyUsage", "Origin") if name in properties}
        multi_region = true(properties.get("MultiRegion", False))
        metadata = call.client("kms").create_key(**fixed, MultiRegion=multi_region)["KeyMetadata"]
        attributes = {"Arn": metadata["Arn"], "KeyId": metadata["KeyId"]}
        return Identity(physical_id=metadata["KeyId"], attributes=attributes)

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        kms, key, differing = call.client("kms"), identity.physical_id, changed(before, after)
        if "Description" in differing:
            kms.update_key_description(KeyId=key, Description=after.get("Description", ""))
        if "KeyPolicy" in after and "KeyPolicy" in differing:
            kms.put_key_policy(KeyId=key, PolicyName="default", Policy=json.dumps(after["KeyPolicy"]))
        if differing & {"EnableKeyRotation", "RotationPeriodInDays"}:
            name = "RotationPeriodInDays"
            days = {name: int(after[name])} if name in after else {}
            if true(after.get("EnableKeyRotation", False)):
                kms.enable_key_rotation(KeyId=key, **days)
            else:
                kms.disable_key_rotation(KeyId=key)
        if "Enabled" in differing:
            (kms.enable_key if true(after.get("Enabled", True)) else kms.disable_key)(KeyId=key)
        retag(kms, before, after, KeyId=key)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Schedule the key's deletion. KMS cannot delete it at once."""
        days = int(properties.get("PendingWindowInDays", 30))
        call.client("kms").schedule_key_deletion(KeyId=identity.physical_id, PendingWindowInDays=days)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        state = call.client("kms").describe_key(KeyId=identity.physical_id)["KeyMetadata"]["KeyState"]
        if state == "PendingDeletion":
            raise AbsentError(f"the key {identity.physical_id} is scheduled for deletion")


class Alias(ApiType):
    name, service = "AWS::KMS::Alias", "kms"
    keys, reads, deletes = "AliasName KeyId", "describe_key", "delete_alias"

    def create(self, call: Call, properties: Properties) -> Identity:
        call.ask("kms", "create_alias", properties)
        return Identity(physical_id=properties["AliasName"])

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        call.ask("kms", "update_alias", after)
        return identity


class Parameter(PutType):
    name, service = "AWS::SSM::Parameter", "ssm"
    keys, reads, deletes = "Name", "get_parameter", "delete_parameter"
    naming, limit, supports = "Name", 512, "Type Value Description Tier DataType"

    def put(self, call: Call, physical_id: str | None, properties: Properties) -> Identity:
        name = physical_id or self.named(call, properties)
        given = {**without(properties, "Tags"), "Name": name, "Overwrite": physical_id is not None}
        call.ask("ssm", "put_parameter", given)
        owner, tags = {"ResourceType": "Parameter", "ResourceId": name}, properties.get("Tags", {})
        before = {"Tags": call.client("ssm").list_tags_for_resource(**owner)["TagList"]}
        after = {"Tags": [{"Key": key, "Value": tags[key]} for key in tags]}
        tag, untag = "add_tags_to_resource", "remove_tags_from_resource"
        retag(call.client("ssm"), before, after, tag=tag, untag=untag, **owner)
        return Identity(physical_id=name, attributes={"Type": given["Type"], "Value": str(given["Value"])})


TYPES = (Alias(), Key(), ManagedPolicy(), OIDCProvider(), Parameter(), Policy(), Role())
