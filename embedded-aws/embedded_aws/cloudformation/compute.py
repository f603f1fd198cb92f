"""AWS::CodeBuild, AWS::ECR, AWS::Lambda, AWS::SageMaker and AWS::StepFunctions: what runs code and models."""

from __future__ import annotations

import io
import json
import re
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import moto.awslambda
from botocore import xform_name

from embedded_aws.cloudformation.resource import (
    AbsentError,
    ApiType,
    Call,
    ConfiguredType,
    Identity,
    Properties,
    PutType,
    as_json,
    changed,
    emptied,
    retag,
    true,
    without,
)

_SUBSTITUTION = re.compile(r"\$\{(\w+)\}")


class Project(ApiType):
    name, service, keys = "AWS::CodeBuild::Project", "codebuild", "name names"
    reads, lists, deletes = "batch_get_projects", "projects", "delete_project"
    naming, limit, stack_in_name = "Name", 150, False

    def create(self, call: Call, properties: Properties) -> Identity:
        name = self.named(call, properties)
        arn = call.ask("codebuild", "create_project", {**properties, "Name": name})["project"]["arn"]
        return Identity(physical_id=name, attributes={"Arn": arn, "Id": name})

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        wanted = {**emptied(before, after, _EMPTY_PROJECT), "Name": identity.physical_id}
        call.ask("codebuild", "update_project", wanted)
        return identity


# UpdateProject does not change what it is not given.
_EMPTY_PROJECT: dict[str, Any] = {
    "Description": "",
    "SecondarySources": [],
    "SecondarySourceVersions": [],
    "SecondaryArtifacts": [],
    "FileSystemLocations": [],
    "SourceVersion": "",
    "Tags": [],
    "Cache": {"Type": "NO_CACHE"},
    "VpcConfig": {},
    "LogsConfig": {},
    "TimeoutInMinutes": 60,
    "QueuedTimeoutInMinutes": 480,
    "BadgeEnabled": False,
}


class Fleet(ApiType):
    name, service, keys = "AWS::CodeBuild::Fleet", "codebuild", "arn names"
    reads, lists, deletes = "batch_get_fleets", "fleets", "delete_fleet"
    naming, limit = "Name", 128

    def create(self, call: Call, properties: Properties) -> Identity:
        wanted = {**properties, "Name": self.named(call, properties)}
        arn = call.ask("codebuild", "create_fleet", wanted)["fleet"]["arn"]
        return Identity(physical_id=arn, attributes={"Arn": arn})

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Change the fleet. It cannot be renamed: another name is refused."""
        kept = without(after, "Name") if after.get("Name") == before.get("Name") else after
        call.ask("codebuild", "update_fleet", {**kept, "Arn": identity.physical_id})
        return identity


class Repository(ConfiguredType):
    name, service, keys = "AWS::ECR::Repository", "ecr", "repositoryName repositoryNames"
    reads, naming = "describe_repositories", "RepositoryName"
    supports = (
        "ImageTagMutability ImageScanningConfiguration LifecyclePolicy RepositoryPolicyText EmptyOnDelete"
    )

    def begin(self, call: Call, properties: Properties) -> Identity:
        name = properties.get("RepositoryName") or call.unique_name().lower()
        repository = call.client("ecr").create_repository(repositoryName=name)["repository"]
        attributes = {"Arn": repository["repositoryArn"], "RepositoryUri": repository["repositoryUri"]}
        return Identity(physical_id=name, attributes=attributes)

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        ecr, name, differing = call.client("ecr"), identity.physical_id, changed(before, after)
        if "ImageTagMutability" in differing:
            mutability = after.get("ImageTagMutability", "MUTABLE")
            ecr.put_image_tag_mutability(repositoryName=name, imageTagMutability=mutability)
        if "ImageScanningConfiguration" in differing:
            wanted = after.get("ImageScanningConfiguration", {}).get("ScanOnPush", False)
            scanning = {"scanOnPush": true(wanted)}
            ecr.put_image_scanning_configuration(repositoryName=name, imageScanningConfiguration=scanning)
        lifecycle = after.get("LifecyclePolicy", {}).get("LifecyclePolicyText")
        if lifecycle and "LifecyclePolicy" in differing:
            ecr.put_lifecycle_policy(repositoryName=name, lifecyclePolicyText=lifecycle)
        policy = after.get("RepositoryPolicyText")
        if policy and "RepositoryPolicyText" in differing:
            ecr.set_repository_policy(repositoryName=name, policyText=as_json(policy))
        retag(ecr, before, after, resourceArn=identity.attributes["Arn"])

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        force = true(properties.get("EmptyOnDelete", False))
        call.client("ecr").delete_repository(repositoryName=identity.physical_id, force=force)


class StateMachine(ApiType):
    name, service, keys = "AWS::StepFunctions::StateMachine", "stepfunctions", "stateMachineArn"
    reads, deletes = "describe_state_machine", "delete_state_machine"
    naming, limit, stack_in_name = "StateMachineName", 80, False

    def create(self, call: Call, properties: Properties) -> Identity:
        wanted = _with_definition(call, without(properties, "StateMachineName", "StateMachineType"))
        kind = {"Type": properties["StateMachineType"]} if "StateMachineType" in properties else {}
        wanted = {**wanted, **kind, "Name": self.named(call, properties)}
        arn: str = call.ask("stepfunctions", "create_state_machine", wanted)["stateMachineArn"]
        return self._identity(call, arn)

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Change the state machine; running executions continue with the old definition."""
        given = without(
            emptied(before, after, _EMPTY_MACHINE), "StateMachineName", "StateMachineType", "Tags"
        )
        wanted = {**_with_definition(call, given), "StateMachineArn": identity.physical_id}
        call.ask("stepfunctions", "update_state_machine", wanted)
        retag(call.client("stepfunctions"), before, after, resourceArn=identity.physical_id)
        return self._identity(call, identity.physical_id)

    def _identity(self, call: Call, arn: str) -> Identity:
        found = self.act(call, self.reads, {self.keys: arn})
        # A state machine without updates has no revision id.
        revision = found.get("revisionId", "INITIAL")
        attributes = {"Arn": arn, "Name": found["name"], "StateMachineRevisionId": revision}
        return Identity(physical_id=arn, attributes=attributes)


# UpdateStateMachine does not change what it is not given.
_EMPTY_MACHINE: dict[str, Any] = {
    "LoggingConfiguration": {"Level": "OFF"},
    "TracingConfiguration": {"Enabled": False},
    "EncryptionConfiguration": {"Type": "AWS_OWNED_KEY"},
}
_DEFINITIONS = ("Definition", "DefinitionString", "DefinitionS3Location", "DefinitionSubstitutions")


def _with_definition(call: Call, properties: Properties) -> dict[str, Any]:
    known = properties.get("DefinitionSubstitutions", {})
    filled = _SUBSTITUTION.sub(
        lambda found: str(known.get(found[1], found[0])), _definition(call, properties)
    )
    return {**without(properties, *_DEFINITIONS), "Definition": filled}


def _definition(call: Call, properties: Properties) -> str:
    if "DefinitionS3Location" not in properties:
        return as_json(properties.get("DefinitionString") or properties["Definition"])
    where = properties["DefinitionS3Location"]
    version = {"VersionId": where["Version"]} if "Version" in where else {}
    found = call.client("s3").get_object(Bucket=where["Bucket"], Key=where["Key"], **version)
    return str(found["Body"].read().decode())


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
    name, service, keys = "AWS::Lambda::Function", "lambda", "FunctionName"
    reads, deletes, naming, limit = "get_function", "delete_function", "FunctionName", 64

    def begin(self, call: Call, properties: Properties) -> Identity:
        name = self.named(call, properties)
        wanted = {**without(properties, *_APART), "FunctionName": name, "Code": _code(properties["Code"])}
        arn = call.ask("lambda", "create_function", wanted)["FunctionArn"]
        return Identity(physical_id=name, attributes={"Arn": arn})

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        client, function = call.client("lambda"), {"FunctionName": identity.physical_id}
        differing = changed(before, after)
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
    name, service, reads, deletes = "AWS::Lambda::Permission", "lambda", "get_policy", "remove_permission"

    def where(self, call: Call, identity: Identity, properties: Properties) -> dict[str, Any]:
        return {"FunctionName": properties["FunctionName"], "StatementId": identity.physical_id}

    def create(self, call: Call, properties: Properties) -> Identity:
        statement = call.unique_name(limit=100)
        call.ask("lambda", "add_permission", {**properties, "StatementId": statement})
        return Identity(physical_id=statement, attributes={"Id": statement})

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        answer = self.act(call, self.reads, self.where(call, identity, properties))
        if identity.physical_id not in (each["Sid"] for each in json.loads(answer["Policy"])["Statement"]):
            raise AbsentError(
                f"the policy of {properties['FunctionName']} has no statement {identity.physical_id}"
            )


class EventInvokeConfig(PutType):
    name, service, keys = "AWS::Lambda::EventInvokeConfig", "lambda", "FunctionName"
    reads, deletes = "get_function_event_invoke_config", "delete_function_event_invoke_config"
    puts, naming = "put_function_event_invoke_config", "FunctionName"

    def put(self, call: Call, physical_id: str | None, properties: Properties) -> Identity:
        """Write the configuration. The qualifier `$LATEST` is the API's default, and moto has no other."""
        latest = properties.get("Qualifier") == "$LATEST"
        return super().put(call, physical_id, without(properties, "Qualifier") if latest else properties)


class EventSourceMapping(ApiType):
    name, service, keys = "AWS::Lambda::EventSourceMapping", "lambda", "UUID"
    reads, deletes = "get_event_source_mapping", "delete_event_source_mapping"

    def create(self, call: Call, properties: Properties) -> Identity:
        created = call.ask("lambda", "create_event_source_mapping", without(properties, "Tags"))
        retag(call.client("lambda"), {}, properties, Resource=created["EventSourceMappingArn"])
        attributes = {"Id": created["UUID"], "EventSourceMappingArn": created["EventSourceMappingArn"]}
        return Identity(physical_id=created["UUID"], attributes=attributes)

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        wanted = {**without(after, "EventSourceArn", "Tags"), "UUID": identity.physical_id}
        call.ask("lambda", "update_event_source_mapping", wanted)
        arn = identity.attributes["EventSourceMappingArn"]
        retag(call.client("lambda"), before, after, Resource=arn)
        return identity


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


# The interval at which an update is polled, in seconds.
_POLL_S = 0.05
_UPDATE_ONLY = ("RetainAllVariantProperties", "ExcludeRetainedVariantProperties", "RetainDeploymentConfig")


class Immutable(ApiType):
    """A resource whose properties, except its tags, are all create-only. Its id is its ARN."""

    service, limit, stack_in_name = "sagemaker", 63, False

    def __init__(self, kind: str) -> None:
        self.name, self.naming, self._kind = f"AWS::SageMaker::{kind}", f"{kind}Name", kind
        noun = xform_name(kind)
        self.deletes, self.reads, self._creates = f"delete_{noun}", f"describe_{noun}", f"create_{noun}"

    def where(self, call: Call, identity: Identity, properties: Properties) -> dict[str, Any]:
        return {self.naming: identity.attributes[self.naming]}

    def create(self, call: Call, properties: Properties) -> Identity:
        name = self.named(call, properties)
        answer = call.ask(
            "sagemaker", self._creates, {**without(properties, *_UPDATE_ONLY), self.naming: name}
        )
        arn = answer[f"{self._kind}Arn"]
        return Identity(physical_id=arn, attributes={self.naming: name, f"{self._kind}Arn": arn})

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        sagemaker = call.client("sagemaker")
        retag(sagemaker, before, after, tag="add_tags", untag="delete_tags", ResourceArn=identity.physical_id)
        return identity


class UpdateUndoneError(Exception):
    """An update that SageMaker rolled back. The message is the reason."""


class Endpoint(Immutable):
    """An endpoint, which moves to another configuration with the deployment and retain properties."""

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Update the endpoint, unless SageMaker has undone the update that a rollback wants to undo."""
        super().update(call, identity, before, after)
        if without(before, "Tags") != without(after, "Tags"):
            where, config = self.where(call, identity, after), after["EndpointConfigName"]
            live = call.client("sagemaker").describe_endpoint(**where)
            there = (live["EndpointStatus"], live["EndpointConfigName"]) == ("InService", config)
            if there and before["EndpointConfigName"] != config:
                return identity
            call.ask("sagemaker", "update_endpoint", {**without(after, "Tags"), **where})
            _wait_for_update(call, where["EndpointName"], config=config)
        return identity


def _wait_for_update(call: Call, name: str, *, config: str) -> None:
    sagemaker = call.client("sagemaker")
    while (found := sagemaker.describe_endpoint(EndpointName=name))["EndpointStatus"] not in (
        "InService",
        "Failed",
    ):
        call.answer()
        call.go_on()
        time.sleep(_POLL_S)
    if found["EndpointConfigName"] != config:
        raise UpdateUndoneError(found.get("FailureReason", f"the endpoint has not moved to {config}"))


TYPES = (
    Endpoint("Endpoint"),
    EventInvokeConfig(),
    EventSourceMapping(),
    Fleet(),
    Function(),
    Immutable("EndpointConfig"),
    Immutable("Model"),
    Permission(),
    Project(),
    Repository(),
    StateMachine(),
)
