"""AWS::Lambda: functions, permissions to invoke them and retries of failed events."""

# ruff: noqa: ARG002 (a type's verbs all take the same arguments, whether or not it needs them)

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import moto.awslambda

from embedded_aws.cloudformation.resource import (
    AbsentError,
    ApiType,
    Call,
    ConfiguredType,
    Identity,
    Properties,
    PutType,
    changed,
    emptied,
    retag,
    without,
)

# Properties that CreateFunction does not take: each has its own API call.
_APART = ("Code", "Tags", "ReservedConcurrentExecutions")
# Only CreateFunction takes these. A change to one replaces the function or has no effect here.
_FIXED = ("PackageType", "Architectures", "CodeSigningConfigArn")
_ARCHIVE_TIME = (1980, 1, 1, 0, 0, 0)

# UpdateFunctionConfiguration does not change what it is not given.
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

    name, service, keys = "AWS::Lambda::Function", "lambda", "FunctionName"
    reads, deletes, naming, limit = "get_function", "delete_function", "FunctionName", 64

    def begin(self, call: Call, properties: Properties) -> Identity:
        name = self.named(call, properties)
        wanted = {**without(properties, *_APART), "FunctionName": name, "Code": _code(properties["Code"])}
        arn = call.ask("lambda", "create_function", wanted)["FunctionArn"]
        return Identity(physical_id=name, attributes={"Arn": arn})

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        client, function, differing = (
            call.client("lambda"),
            {"FunctionName": identity.physical_id},
            changed(before, after),
        )
        if before and "Code" in differing:
            call.ask("lambda", "update_function_code", {**function, **_code(after["Code"])})
        if before and differing.difference(_APART):
            wanted = without(emptied(before, after, _EMPTIED), *_APART, *_FIXED)
            call.ask("lambda", "update_function_configuration", {**wanted, **function})
        if "ReservedConcurrentExecutions" in differing:
            if "ReservedConcurrentExecutions" in after:
                reserved = int(after["ReservedConcurrentExecutions"])
                client.put_function_concurrency(**function, ReservedConcurrentExecutions=reserved)
            else:
                client.delete_function_concurrency(**function)
        retag(client, before, after, Resource=identity.attributes["Arn"])


class Permission(ApiType):
    """A statement of a function's resource policy. Its id is the statement's."""

    name, service, reads, deletes = "AWS::Lambda::Permission", "lambda", "get_policy", "remove_permission"

    def where(self, call: Call, identity: Identity, properties: Properties) -> dict[str, Any]:
        return {"FunctionName": properties["FunctionName"], "StatementId": identity.physical_id}

    def create(self, call: Call, properties: Properties) -> Identity:
        statement = call.unique_name(limit=100)
        call.ask("lambda", "add_permission", {**properties, "StatementId": statement})
        return Identity(physical_id=statement, attributes={"Id": statement})

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Return the same identity: a permission cannot change in place."""
        return identity

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        answer = self.act(call, self.reads, self.where(call, identity, properties))
        if identity.physical_id not in (each["Sid"] for each in json.loads(answer["Policy"])["Statement"]):
            raise AbsentError(
                f"the policy of {properties['FunctionName']} has no statement {identity.physical_id}"
            )


class EventInvokeConfig(PutType):
    """The retries of a function's asynchronous calls. Its id is the function's name."""

    name, service, keys = "AWS::Lambda::EventInvokeConfig", "lambda", "FunctionName"
    reads, deletes = "get_function_event_invoke_config", "delete_function_event_invoke_config"

    def put(self, call: Call, physical_id: str | None, properties: Properties) -> Identity:
        """Write the configuration. The qualifier `$LATEST` is the API's default, and moto has no other."""
        wanted = without(properties, *(["Qualifier"] if properties.get("Qualifier") == "$LATEST" else []))
        call.ask("lambda", "put_function_event_invoke_config", wanted)
        return Identity(physical_id=properties["FunctionName"])


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


TYPES = (EventInvokeConfig(), Function(), Permission())
