"""AWS::SecretsManager::Secret."""

# ruff: noqa: ARG002 (a type's verbs all take the same arguments, whether or not it needs them)

from __future__ import annotations

import json
from typing import Any

from embedded_aws.cloudformation.request import api_request, refuse_unknown
from embedded_aws.cloudformation.resource import Call, ConfiguredType, Identity, Properties, changed_tags

_NAME_LIMIT = 512
_PROPERTIES = frozenset({"Description", "GenerateSecretString", "KmsKeyId", "Name", "SecretString", "Tags"})


class Secret(ConfiguredType):
    """A secret. Its id is its ARN."""

    name = "AWS::SecretsManager::Secret"

    def begin(self, call: Call, properties: Properties) -> Identity:
        """Create the secret without a value."""
        refuse_unknown(properties, _PROPERTIES)
        name = properties.get("Name") or call.unique_name(limit=_NAME_LIMIT, stack=False)
        arn = call.client("secretsmanager").create_secret(Name=name)["ARN"]
        return Identity(physical_id=arn, attributes={"Id": arn})

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        """Update value, description, key and tags to match the properties."""
        refuse_unknown(after, _PROPERTIES)
        secrets, arn = call.client("secretsmanager"), identity.physical_id
        changed = {name: after[name] for name in after if before.get(name) != after[name]}
        update = {
            name: changed[name] for name in ("Description", "KmsKeyId", "SecretString") if name in changed
        }
        if "GenerateSecretString" in changed:
            update["SecretString"] = _generated(secrets, changed["GenerateSecretString"])
        if update:
            secrets.update_secret(SecretId=arn, **update)
        put, removed = changed_tags(before, after)
        if put:
            secrets.tag_resource(SecretId=arn, Tags=put)
        if removed:
            secrets.untag_resource(SecretId=arn, TagKeys=removed)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the secret at once, as CloudFormation does."""
        call.client("secretsmanager").delete_secret(
            SecretId=identity.physical_id, ForceDeleteWithoutRecovery=True
        )

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the secret."""
        call.client("secretsmanager").describe_secret(SecretId=identity.physical_id)


def _generated(secrets: Any, wanted: Properties) -> str:
    options = {key: wanted[key] for key in wanted if key not in {"SecretStringTemplate", "GenerateStringKey"}}
    request = api_request(secrets, "GetRandomPassword", options)
    password: str = secrets.get_random_password(**request)["RandomPassword"]
    if "GenerateStringKey" not in wanted:
        return password
    template = json.loads(wanted.get("SecretStringTemplate", "{}"))
    return json.dumps({**template, wanted["GenerateStringKey"]: password})
