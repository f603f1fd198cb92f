"""AWS::KMS: keys and aliases."""

# ruff: noqa: ARG002 (a type's verbs all take the same arguments, whether or not it needs them)

from __future__ import annotations

import json

from embedded_aws.cloudformation.request import refuse_unknown
from embedded_aws.cloudformation.resource import (
    AbsentError,
    Call,
    ConfiguredType,
    Identity,
    Properties,
    ResourceType,
    changed_tags,
)

_DEFAULT_WINDOW_DAYS = 30


class Key(ConfiguredType):
    """A key. Its id is the key's id."""

    name = "AWS::KMS::Key"

    def begin(self, call: Call, properties: Properties) -> Identity:
        """Create the key; its usage cannot change later."""
        refuse_unknown(properties, _KEY_PROPERTIES)
        fixed = {name: properties[name] for name in ("KeySpec", "KeyUsage", "Origin") if name in properties}
        multi_region = str(properties.get("MultiRegion", False)).lower() == "true"
        metadata = call.client("kms").create_key(**fixed, MultiRegion=multi_region)["KeyMetadata"]
        attributes = {"Arn": metadata["Arn"], "KeyId": metadata["KeyId"]}
        return Identity(physical_id=metadata["KeyId"], attributes=attributes)

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        """Update description, policy, rotation, state and tags to match the properties."""
        refuse_unknown(after, _KEY_PROPERTIES)
        kms, key = call.client("kms"), identity.physical_id
        if before.get("Description") != after.get("Description"):
            kms.update_key_description(KeyId=key, Description=after.get("Description", ""))
        if "KeyPolicy" in after and before.get("KeyPolicy") != after["KeyPolicy"]:
            kms.put_key_policy(KeyId=key, PolicyName="default", Policy=json.dumps(after["KeyPolicy"]))
        if _rotation(before) != _rotation(after):
            rotates, days = _rotation(after)
            if rotates:
                kms.enable_key_rotation(KeyId=key, **({"RotationPeriodInDays": days} if days else {}))
            else:
                kms.disable_key_rotation(KeyId=key)
        if _enabled(before) != _enabled(after):
            (kms.enable_key if _enabled(after) else kms.disable_key)(KeyId=key)
        put, removed = changed_tags(before, after)
        if put:
            tags = [{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in put]
            kms.tag_resource(KeyId=key, Tags=tags)
        if removed:
            kms.untag_resource(KeyId=key, TagKeys=removed)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Schedule the key's deletion. KMS cannot delete it at once."""
        days = int(properties.get("PendingWindowInDays", _DEFAULT_WINDOW_DAYS))
        call.client("kms").schedule_key_deletion(KeyId=identity.physical_id, PendingWindowInDays=days)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the key; a key scheduled for deletion does not count."""
        state = call.client("kms").describe_key(KeyId=identity.physical_id)["KeyMetadata"]["KeyState"]
        if state == "PendingDeletion":
            msg = f"the key {identity.physical_id} is scheduled for deletion"
            raise AbsentError(msg)


_KEY_PROPERTIES = frozenset(
    {
        "Description",
        "KeyPolicy",
        "EnableKeyRotation",
        "RotationPeriodInDays",
        "Enabled",
        "KeySpec",
        "KeyUsage",
        "MultiRegion",
        "Origin",
        "PendingWindowInDays",
        "BypassPolicyLockoutSafetyCheck",
        "Tags",
    }
)


def _rotation(properties: Properties) -> tuple[bool, int]:
    rotates = str(properties.get("EnableKeyRotation", False)).lower() == "true"
    return rotates, int(properties.get("RotationPeriodInDays", 0))


def _enabled(properties: Properties) -> bool:
    return str(properties.get("Enabled", True)).lower() == "true"


class Alias(ResourceType):
    """A name for a key. Its id is the alias."""

    name = "AWS::KMS::Alias"

    def create(self, call: Call, properties: Properties) -> Identity:
        """Create the alias."""
        call.client("kms").create_alias(
            AliasName=properties["AliasName"], TargetKeyId=properties["TargetKeyId"]
        )
        return Identity(physical_id=properties["AliasName"])

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Point the alias to another key."""
        call.client("kms").update_alias(AliasName=identity.physical_id, TargetKeyId=after["TargetKeyId"])
        return identity

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the alias."""
        call.client("kms").delete_alias(AliasName=identity.physical_id)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the key of the alias."""
        call.client("kms").describe_key(KeyId=identity.physical_id)
