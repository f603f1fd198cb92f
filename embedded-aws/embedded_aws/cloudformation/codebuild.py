"""AWS::CodeBuild: build projects, and fleets of reserved machines."""

# ruff: noqa: ARG002 (a type's verbs all take the same arguments, whether or not it needs them)

from __future__ import annotations

from embedded_aws.cloudformation.request import api_request
from embedded_aws.cloudformation.resource import AbsentError, Call, Identity, Properties, ResourceType

_NAME_LIMIT = 150
_FLEET_NAME_LIMIT = 128


class Project(ResourceType):
    """A build project. Its id is its name."""

    name = "AWS::CodeBuild::Project"

    def create(self, call: Call, properties: Properties) -> Identity:
        """Create the project."""
        codebuild = call.client("codebuild")
        name = properties.get("Name") or call.unique_name(limit=_NAME_LIMIT, stack=False)
        request = api_request(codebuild, "CreateProject", {**properties, "Name": name})
        arn = codebuild.create_project(**request)["project"]["arn"]
        return Identity(physical_id=name, attributes={"Arn": arn, "Id": name})

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Change the project; a removed property returns to its default."""
        codebuild = call.client("codebuild")
        gone = {key: _EMPTIED[key] for key in before if key not in after and key in _EMPTIED}
        wanted = {**gone, **after, "Name": identity.physical_id}
        codebuild.update_project(**api_request(codebuild, "UpdateProject", wanted))
        return identity

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the project."""
        call.client("codebuild").delete_project(name=identity.physical_id)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the project."""
        if not call.client("codebuild").batch_get_projects(names=[identity.physical_id])["projects"]:
            msg = f"CodeBuild has no project {identity.physical_id}"
            raise AbsentError(msg)


class Fleet(ResourceType):
    """A fleet of reserved machines. Its id is its ARN."""

    name = "AWS::CodeBuild::Fleet"

    def create(self, call: Call, properties: Properties) -> Identity:
        """Create the fleet."""
        codebuild = call.client("codebuild")
        name = properties.get("Name") or call.unique_name(limit=_FLEET_NAME_LIMIT)
        request = api_request(codebuild, "CreateFleet", {**properties, "Name": name})
        arn = codebuild.create_fleet(**request)["fleet"]["arn"]
        return Identity(physical_id=arn, attributes={"Arn": arn})

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Change the fleet; its name stays."""
        codebuild = call.client("codebuild")
        wanted = {**after, "Arn": identity.physical_id}
        if after.get("Name") == before.get("Name"):
            wanted.pop("Name", None)  # a fleet cannot be renamed: another name is refused below
        codebuild.update_fleet(**api_request(codebuild, "UpdateFleet", wanted))
        return identity

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the fleet."""
        call.client("codebuild").delete_fleet(arn=identity.physical_id)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the fleet."""
        if not call.client("codebuild").batch_get_fleets(names=[identity.physical_id])["fleets"]:
            msg = f"CodeBuild has no fleet {identity.physical_id}"
            raise AbsentError(msg)


# Values that empty a setting: UpdateProject does not change what it is not given.
_EMPTIED = {
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
