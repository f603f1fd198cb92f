"""AWS::StepFunctions: state machines."""

# ruff: noqa: ARG002 (a type's verbs all take the same arguments, whether or not it needs them)

from __future__ import annotations

import json
import re
from typing import Any

from embedded_aws.cloudformation.request import api_request
from embedded_aws.cloudformation.resource import Call, Identity, Properties, ResourceType, changed_tags

_NAME_LIMIT = 80
_SUBSTITUTION = re.compile(r"\$\{(\w+)\}")

# Properties with another name in the API, and the properties that all state its one member `definition`.
_NAMES = {"StateMachineName": "Name", "StateMachineType": "Type"}
_DEFINITIONS = ("Definition", "DefinitionString", "DefinitionS3Location", "DefinitionSubstitutions")
_ONLY_NEW = ("StateMachineName", "StateMachineType", "Tags")

# Values that empty a setting: UpdateStateMachine does not change what it is not given.
_EMPTIED: dict[str, Any] = {
    "LoggingConfiguration": {"Level": "OFF"},
    "TracingConfiguration": {"Enabled": False},
    "EncryptionConfiguration": {"Type": "AWS_OWNED_KEY"},
}


class StateMachine(ResourceType):
    """A state machine. Its id is its ARN."""

    name = "AWS::StepFunctions::StateMachine"

    def create(self, call: Call, properties: Properties) -> Identity:
        """Create the state machine.

        Raises:
            ClientError: Step Functions refuses the definition.
        """
        states = call.client("stepfunctions")
        name = properties.get("StateMachineName") or call.unique_name(limit=_NAME_LIMIT, stack=False)
        wanted = {_NAMES.get(key, key): value for key, value in _settings(call, properties).items()}
        request = api_request(states, "CreateStateMachine", {**wanted, "Name": name})
        arn: str = states.create_state_machine(**request)["stateMachineArn"]
        return self._identity(call, arn)

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Change the state machine; running executions continue with the old definition."""
        states = call.client("stepfunctions")
        gone = {key: value for key, value in _EMPTIED.items() if key in before and key not in after}
        given = {key: value for key, value in after.items() if key not in _ONLY_NEW}
        wanted = {**gone, **_settings(call, given), "StateMachineArn": identity.physical_id}
        states.update_state_machine(**api_request(states, "UpdateStateMachine", wanted))
        put, removed = changed_tags(before, after)
        if put:
            tags = [{"key": tag["Key"], "value": tag["Value"]} for tag in put]
            states.tag_resource(resourceArn=identity.physical_id, tags=tags)
        if removed:
            states.untag_resource(resourceArn=identity.physical_id, tagKeys=removed)
        return self._identity(call, identity.physical_id)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the state machine."""
        call.client("stepfunctions").delete_state_machine(stateMachineArn=identity.physical_id)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the state machine."""
        call.client("stepfunctions").describe_state_machine(stateMachineArn=identity.physical_id)

    @staticmethod
    def _identity(call: Call, arn: str) -> Identity:
        found = call.client("stepfunctions").describe_state_machine(stateMachineArn=arn)
        # A state machine without updates has no revision id.
        attributes = {
            "Arn": arn,
            "Name": found["name"],
            "StateMachineRevisionId": found.get("revisionId", "INITIAL"),
        }
        return Identity(physical_id=arn, attributes=attributes)


def _settings(call: Call, properties: Properties) -> dict[str, Any]:
    """Return the properties with the definition in the API's form, after substitutions."""
    kept = {key: value for key, value in properties.items() if key not in _DEFINITIONS}
    return {**kept, "Definition": _definition(call, properties)}


def _definition(call: Call, properties: Properties) -> str:
    substitutions = properties.get("DefinitionSubstitutions", {})

    def fill(found: re.Match[str]) -> str:
        return str(substitutions.get(found[1], found[0]))

    return _SUBSTITUTION.sub(fill, _text(call, properties))


def _text(call: Call, properties: Properties) -> str:
    if "DefinitionString" in properties:
        return str(properties["DefinitionString"])
    if "Definition" in properties:
        return json.dumps(properties["Definition"])
    where = properties["DefinitionS3Location"]
    version = {"VersionId": where["Version"]} if "Version" in where else {}
    found = call.client("s3").get_object(Bucket=where["Bucket"], Key=where["Key"], **version)
    return str(found["Body"].read().decode())
