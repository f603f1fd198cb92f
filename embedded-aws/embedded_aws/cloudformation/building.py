"""AWS::CodeBuild, AWS::ECR and AWS::StepFunctions: projects, machines, repositories, state machines."""

from __future__ import annotations

import re
from typing import Any

from embedded_aws.cloudformation.resource import (
    ApiType,
    Call,
    ConfiguredType,
    Identity,
    Properties,
    as_json,
    changed,
    emptied,
    retag,
    true,
    without,
)

_SUBSTITUTION = re.compile(r"\$\{(\w+)\}")


class Project(ApiType):
    """A build project. Its id is its name."""

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
    """A fleet of reserved machines. Its id is its ARN."""

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
    """A repository for images. Its id is its name."""

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
        """Delete the repository; with its images if the template requests it."""
        force = true(properties.get("EmptyOnDelete", False))
        call.client("ecr").delete_repository(repositoryName=identity.physical_id, force=force)


class StateMachine(ApiType):
    """A state machine. Its id is its ARN."""

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
    """Return the properties with the definition in the API's one member, after substitutions."""
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


TYPES = (Fleet(), Project(), Repository(), StateMachine())
