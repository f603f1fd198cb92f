"""AWS::Lambda: functions, permissions to invoke them, retries of failed events, and event sources."""

# ruff: noqa: ARG002 (a type's verbs all take the same arguments, whether or not it needs them)

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import moto.awslambda

from embedded_aws.cloudformation.request import api_request
from embedded_aws.cloudformation.resource import (
    AbsentError,
    Call,
    ConfiguredType,
    Identity,
    Properties,
    PutType,
    ResourceType,
    UnsupportedUpdateError,
    changed_tags,
)

_NAME_LIMIT = 64
_CODE = "Code"
# Properties that CreateFunction does not take: each has its own API call.
_APART = {"Code", "Tags", "ReservedConcurrentExecutions"}
_ARCHIVE_TIME = (1980, 1, 1, 0, 0, 0)

# Values that restore the defaults: UpdateFunctionConfiguration does not change what it is not given.
_EMPTIED: Mapping[str, Any] = {
    "Description": "",
    "Environment": {"Variables": {}},
    "Timeout": 3,
    "MemorySize": 128,
    "Layers": [],
    "VpcConfig": {"SubnetIds": [], "SecurityGroupIds": []},
    "DeadLetterConfig": {"TargetArn": ""},
    "TracingConfig": {"Mode": "PassThrough"},
    "EphemeralStorage": {"Size": 512},
    "LoggingConfig": {"LogFormat": "Text"},
    "KmsKeyArn": "",
}


class Function(ConfiguredType):
    """A function. Its id is its name."""

    name = "AWS::Lambda::Function"

    def begin(self, call: Call, properties: Properties) -> Identity:
        """Create the function with its code."""
        client = call.client("lambda")
        name = properties.get("FunctionName") or call.unique_name(limit=_NAME_LIMIT)
        wanted = {**_configuration(properties), "FunctionName": name}
        request = api_request(client, "CreateFunction", wanted)
        arn = client.create_function(**request, Code=_code(properties[_CODE]))["FunctionArn"]
        return Identity(physical_id=name, attributes={"Arn": arn})

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        """Update code, configuration, tags and limits to match the properties."""
        client, name = call.client("lambda"), identity.physical_id
        if before and before[_CODE] != after[_CODE]:
            client.update_function_code(FunctionName=name, **_code(after[_CODE]))
        if before and _configuration(before) != _configuration(after):
            gone = {key: _EMPTIED[key] for key in before if key not in after and key in _EMPTIED}
            wanted = {**gone, **_configuration(after), "FunctionName": name}
            # Only CreateFunction takes these. A change to one replaces the function or has no effect here.
            for fixed in ("PackageType", "Architectures", "CodeSigningConfigArn"):
                wanted.pop(fixed, None)
            client.update_function_configuration(**api_request(client, "UpdateFunctionConfiguration", wanted))
        if before.get("ReservedConcurrentExecutions") != after.get("ReservedConcurrentExecutions"):
            _reserve(client, name, after.get("ReservedConcurrentExecutions"))
        put, removed = changed_tags(before, after)
        if put:
            tags = {tag["Key"]: tag["Value"] for tag in put}
            client.tag_resource(Resource=identity.attributes["Arn"], Tags=tags)
        if removed:
            client.untag_resource(Resource=identity.attributes["Arn"], TagKeys=removed)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the function; its log group stays."""
        call.client("lambda").delete_function(FunctionName=identity.physical_id)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the function."""
        call.client("lambda").get_function(FunctionName=identity.physical_id)


class Permission(ResourceType):
    """A statement of a function's resource policy. Its id is the statement's."""

    name = "AWS::Lambda::Permission"

    def create(self, call: Call, properties: Properties) -> Identity:
        """Add the statement."""
        client = call.client("lambda")
        statement = call.unique_name(limit=100)
        request = api_request(client, "AddPermission", {**properties, "StatementId": statement})
        client.add_permission(**request)
        return Identity(physical_id=statement, attributes={"Id": statement})

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Return the same identity: a permission cannot change in place."""
        return identity

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Remove the statement."""
        call.client("lambda").remove_permission(
            FunctionName=properties["FunctionName"], StatementId=identity.physical_id
        )

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Find the statement in the function's policy."""
        answer = call.client("lambda").get_policy(FunctionName=properties["FunctionName"])
        if identity.physical_id not in (each["Sid"] for each in json.loads(answer["Policy"])["Statement"]):
            msg = f"the policy of {properties['FunctionName']} has no statement {identity.physical_id}"
            raise AbsentError(msg)


class EventInvokeConfig(PutType):
    """The retries of a function's asynchronous calls. Its id is the function's name."""

    name = "AWS::Lambda::EventInvokeConfig"

    def put(self, call: Call, physical_id: str | None, properties: Properties) -> Identity:
        """Write the configuration."""
        client = call.client("lambda")
        wanted = api_request(client, "PutFunctionEventInvokeConfig", _unqualified(properties))
        client.put_function_event_invoke_config(**wanted)
        return Identity(physical_id=properties["FunctionName"])

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Remove the configuration."""
        call.client("lambda").delete_function_event_invoke_config(FunctionName=identity.physical_id)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the configuration."""
        call.client("lambda").get_function_event_invoke_config(FunctionName=identity.physical_id)


class EventSourceMapping(ResourceType):
    """A queue or stream that invokes a function. Its id is its UUID."""

    name = "AWS::Lambda::EventSourceMapping"

    def create(self, call: Call, properties: Properties) -> Identity:
        """Create the mapping."""
        client = call.client("lambda")
        tags = {"Tags": {tag["Key"]: tag["Value"] for tag in properties.get("Tags", ())}}
        wanted = api_request(client, "CreateEventSourceMapping", {**properties, **tags})
        mapping = client.create_event_source_mapping(**wanted)
        attributes = {"Id": mapping["UUID"], "EventSourceMappingArn": mapping["EventSourceMappingArn"]}
        return Identity(physical_id=mapping["UUID"], attributes=attributes)

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Change the mapping and its tags."""
        client, arn = call.client("lambda"), identity.attributes["EventSourceMappingArn"]
        if gone := before.keys() - after.keys() - {"Tags"}:
            msg = f"the embedded AWS cannot remove {', '.join(sorted(gone))} of {self.name}"
            raise UnsupportedUpdateError(msg)
        put, removed = changed_tags(before, after)
        if put:
            client.tag_resource(Resource=arn, Tags={tag["Key"]: tag["Value"] for tag in put})
        if removed:
            client.untag_resource(Resource=arn, TagKeys=removed)
        changed = {name: after[name] for name in after if name != "Tags" and before.get(name) != after[name]}
        wanted = {**changed, "UUID": identity.physical_id}
        client.update_event_source_mapping(**api_request(client, "UpdateEventSourceMapping", wanted))
        return identity

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the mapping."""
        call.client("lambda").delete_event_source_mapping(UUID=identity.physical_id)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the mapping."""
        call.client("lambda").get_event_source_mapping(UUID=identity.physical_id)


def _configuration(properties: Properties) -> dict[str, Any]:
    return {key: value for key, value in properties.items() if key not in _APART}


def _unqualified(properties: Properties) -> dict[str, Any]:
    """Return the properties without a `$LATEST` qualifier, which is the API's default."""
    return {key: value for key, value in properties.items() if (key, value) != ("Qualifier", "$LATEST")}


def _code(declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return code in the API's form: CloudFormation packs inline code of a template into an archive."""
    if "ZipFile" not in declared:
        return dict(declared)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in (("index.py", declared["ZipFile"]), ("cfnresponse.py", _cfnresponse())):
            archive.writestr(zipfile.ZipInfo(name, _ARCHIVE_TIME), text)
    return {"ZipFile": packed.getvalue()}


def _cfnresponse() -> str:
    """Return the module that CloudFormation adds to inline code of a template.

    Source: the page "cfn-response module" of CloudFormation's user guide, as of 2026-11-21. moto contains it.
    """
    return (Path(moto.awslambda.__path__[0]) / "resources" / "cfnresponse.py.txt").read_text("utf-8")


def _reserve(client: Any, name: str, executions: Any) -> None:
    if executions is None:
        client.delete_function_concurrency(FunctionName=name)
    else:
        client.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=int(executions))
