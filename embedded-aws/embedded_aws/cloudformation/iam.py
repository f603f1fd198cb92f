"""AWS::IAM: roles, inline policies, managed policies and identity providers."""

# ruff: noqa: ARG002 (a type's verbs all take the same arguments, whether or not it needs them)

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from embedded_aws.cloudformation.request import refuse_unknown
from embedded_aws.cloudformation.resource import (
    Call,
    Client,
    ConfiguredType,
    Identity,
    Properties,
    ResourceType,
    changed_tags,
)

_ROLE_NAME_LIMIT = 64
_POLICY_NAME_LIMIT = 128
_THUMBPRINT = 40  # hexadecimal digits


class Role(ConfiguredType):
    """A role. Its id is its name."""

    name = "AWS::IAM::Role"

    def begin(self, call: Call, properties: Properties) -> Identity:
        """Create the role with its trust policy."""
        refuse_unknown(properties, _ROLE_PROPERTIES)
        name = properties.get("RoleName") or call.unique_name(limit=_ROLE_NAME_LIMIT)
        role = call.client("iam").create_role(
            RoleName=name,
            Path=properties.get("Path", "/"),
            AssumeRolePolicyDocument=json.dumps(properties["AssumeRolePolicyDocument"]),
        )["Role"]
        return Identity(physical_id=name, attributes={"Arn": role["Arn"], "RoleId": role["RoleId"]})

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        """Update description, boundary, policies and tags to match the properties."""
        refuse_unknown(after, _ROLE_PROPERTIES)
        iam, role = call.client("iam"), identity.physical_id
        if before and before["AssumeRolePolicyDocument"] != after["AssumeRolePolicyDocument"]:
            document = json.dumps(after["AssumeRolePolicyDocument"])
            iam.update_assume_role_policy(RoleName=role, PolicyDocument=document)
        if any(before.get(name) != after.get(name) for name in ("Description", "MaxSessionDuration")):
            iam.update_role(
                RoleName=role,
                Description=after.get("Description", ""),
                MaxSessionDuration=int(after.get("MaxSessionDuration", 3600)),
            )
        _set_boundary(iam, role, before.get("PermissionsBoundary"), after.get("PermissionsBoundary"))
        _set_policies(iam, role, before, after)
        put, removed = changed_tags(before, after)
        if put:
            iam.tag_role(RoleName=role, Tags=put)
        if removed:
            iam.untag_role(RoleName=role, TagKeys=removed)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Remove the role's policies, then delete it: IAM refuses to delete a role with policies."""
        iam, role = call.client("iam"), identity.physical_id
        for attached in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]:
            iam.detach_role_policy(RoleName=role, PolicyArn=attached["PolicyArn"])
        for inline in (policy["PolicyName"] for policy in properties.get("Policies", ())):
            iam.delete_role_policy(RoleName=role, PolicyName=inline)
        iam.delete_role(RoleName=role)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the role."""
        call.client("iam").get_role(RoleName=identity.physical_id)


_ROLE_PROPERTIES = frozenset(
    {
        "RoleName",
        "Path",
        "AssumeRolePolicyDocument",
        "Description",
        "MaxSessionDuration",
        "PermissionsBoundary",
        "ManagedPolicyArns",
        "Policies",
        "Tags",
    }
)


def _set_boundary(iam: Client, role: str, before: str | None, after: str | None) -> None:
    if after and after != before:
        iam.put_role_permissions_boundary(RoleName=role, PermissionsBoundary=after)
    elif before and not after:
        iam.delete_role_permissions_boundary(RoleName=role)


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


# The holders of an inline policy: the property that lists them, and their name in the API's operations.
_HOLDERS = {"Roles": "role", "Users": "user", "Groups": "group"}


def _holders(properties: Properties) -> Iterator[tuple[str, str]]:
    for listing, kind in _HOLDERS.items():
        yield from ((kind, name) for name in properties.get(listing, ()))


def _inline(iam: Client, verb: str, holder: tuple[str, str], **arguments: Any) -> Any:
    kind, name = holder
    return getattr(iam, f"{verb}_{kind}_policy")(**{f"{kind.title()}Name": name}, **arguments)


class Policy(ResourceType):
    """An inline policy of roles, users and groups."""

    name = "AWS::IAM::Policy"

    def create(self, call: Call, properties: Properties) -> Identity:
        """Write the policy into every holder."""
        refuse_unknown(properties, {"PolicyName", "PolicyDocument", *_HOLDERS})
        self._write(call, properties)
        name = call.unique_name(limit=_POLICY_NAME_LIMIT)
        return Identity(physical_id=name, attributes={"Id": name})

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Write the policy into every holder, and remove it from former holders."""
        self._write(call, after)
        kept = set(_holders(after)) if before["PolicyName"] == after["PolicyName"] else set()
        self._erase(call, before, kept)
        return identity

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Remove the policy from every holder."""
        self._erase(call, properties, set())

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the policy from every holder."""
        for holder in _holders(properties):
            _inline(call.client("iam"), "get", holder, PolicyName=properties["PolicyName"])

    def _write(self, call: Call, properties: Properties) -> None:
        document = json.dumps(properties["PolicyDocument"])
        for holder in _holders(properties):
            _inline(
                call.client("iam"),
                "put",
                holder,
                PolicyName=properties["PolicyName"],
                PolicyDocument=document,
            )

    def _erase(self, call: Call, properties: Properties, kept: set[tuple[str, str]]) -> None:
        for holder in _holders(properties):
            if holder not in kept:
                _inline(call.client("iam"), "delete", holder, PolicyName=properties["PolicyName"])


class ManagedPolicy(ConfiguredType):
    """A managed policy. Its id is its ARN."""

    name = "AWS::IAM::ManagedPolicy"

    def begin(self, call: Call, properties: Properties) -> Identity:
        """Create the policy."""
        refuse_unknown(properties, {"ManagedPolicyName", "Path", "Description", "PolicyDocument", *_HOLDERS})
        name = properties.get("ManagedPolicyName") or call.unique_name(limit=_POLICY_NAME_LIMIT)
        policy = call.client("iam").create_policy(
            PolicyName=name,
            Path=properties.get("Path", "/"),
            Description=properties.get("Description", ""),
            PolicyDocument=json.dumps(properties["PolicyDocument"]),
        )["Policy"]
        attributes = {"PolicyArn": policy["Arn"], "PolicyId": policy["PolicyId"]}
        return Identity(physical_id=policy["Arn"], attributes=attributes)

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        """Make a changed document the default version, and attach the policy to its holders."""
        iam, arn = call.client("iam"), identity.physical_id
        if before and before["PolicyDocument"] != after["PolicyDocument"]:
            _drop_versions(iam, arn)
            document = json.dumps(after["PolicyDocument"])
            iam.create_policy_version(PolicyArn=arn, PolicyDocument=document, SetAsDefault=True)
        old, new = set(_holders(before)), set(_holders(after))
        for kind, name in sorted(new - old):
            getattr(iam, f"attach_{kind}_policy")(**{f"{kind.title()}Name": name}, PolicyArn=arn)
        for kind, name in sorted(old - new):
            getattr(iam, f"detach_{kind}_policy")(**{f"{kind.title()}Name": name}, PolicyArn=arn)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Detach the policy and delete it with its versions."""
        iam, arn = call.client("iam"), identity.physical_id
        for kind, name in _holders(properties):
            getattr(iam, f"detach_{kind}_policy")(**{f"{kind.title()}Name": name}, PolicyArn=arn)
        _drop_versions(iam, arn)
        iam.delete_policy(PolicyArn=arn)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the policy."""
        call.client("iam").get_policy(PolicyArn=identity.physical_id)


def _drop_versions(iam: Client, arn: str) -> None:
    """Delete the versions that are not the default: IAM keeps at most five."""
    for version in iam.list_policy_versions(PolicyArn=arn)["Versions"]:
        if not version["IsDefaultVersion"]:
            iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])


class OIDCProvider(ConfiguredType):
    """An identity provider of OpenID Connect. Its id is its ARN."""

    name = "AWS::IAM::OIDCProvider"

    def begin(self, call: Call, properties: Properties) -> Identity:
        """Create the provider."""
        refuse_unknown(properties, {"Url", "ClientIdList", "ThumbprintList", "Tags"})
        arn = _create_provider(call.client("iam"), properties)
        return Identity(physical_id=arn, attributes={"Arn": arn})

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        """Update the audiences and the tags to match the properties."""
        iam, arn = call.client("iam"), identity.physical_id
        if before and before.get("ClientIdList") != after.get("ClientIdList"):
            # moto cannot change them; the provider of the same URL has the same ARN.
            iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=arn)
            _create_provider(iam, after)
            before = {}
        put, removed = changed_tags(before, after)
        if put:
            iam.tag_open_id_connect_provider(OpenIDConnectProviderArn=arn, Tags=put)
        if removed:
            iam.untag_open_id_connect_provider(OpenIDConnectProviderArn=arn, TagKeys=removed)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the provider."""
        call.client("iam").delete_open_id_connect_provider(OpenIDConnectProviderArn=identity.physical_id)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the provider."""
        call.client("iam").get_open_id_connect_provider(OpenIDConnectProviderArn=identity.physical_id)


def _create_provider(iam: Client, properties: Properties) -> str:
    made = iam.create_open_id_connect_provider(
        Url=properties["Url"],
        ClientIDList=properties.get("ClientIdList", []),
        ThumbprintList=properties.get("ThumbprintList", ["0" * _THUMBPRINT]),  # IAM finds it out itself
    )
    return str(made["OpenIDConnectProviderArn"])
