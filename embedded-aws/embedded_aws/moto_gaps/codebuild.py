"""CodeBuild's projects, and its fleets of reserved machines, which are ACTIVE at once.

moto's gaps:
- A project keeps only some of its properties. A source without a location is refused, even if its type never
  has one.
- It lacks UpdateProject.
- It lacks fleets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from moto.codebuild.exceptions import (
    InvalidInputException,
    ResourceAlreadyExistsException,
    ResourceNotFoundException,
)
from moto.codebuild.models import CodeBuild, CodeBuildBackend
from moto.codebuild.responses import CodeBuildResponse
from moto.core.responses import ActionResult
from moto.core.utils import unix_time
from moto.moto_api._internal import mock_random

from embedded_aws.moto_gaps import patch
from embedded_aws.moto_gaps.requests import violations

# The defaults of a project. Source: CodeBuild API reference, CreateProject.
_DEFAULTS: Mapping[str, Any] = {
    "timeoutInMinutes": 60,
    "queuedTimeoutInMinutes": 480,
    "cache": {"type": "NO_CACHE"},
    "badge": {"badgeEnabled": False},
}
_WITHOUT_LOCATION = ("CODEPIPELINE", "NO_SOURCE")


def _request(response: CodeBuildResponse) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(response.body)
    return found


@patch.replaces(CodeBuildResponse, "create_project")
def _create_project(self: CodeBuildResponse) -> ActionResult:
    request, backend = _request(self), self.codebuild_backend
    name = request["name"]
    for violated in violations("codebuild", "CreateProject", request):
        raise InvalidInputException(f"1 validation error detected: {violated}")
    _validate(request)
    if not request["serviceRole"].startswith(f"arn:{self.partition}:iam::{self.current_account}:role/"):
        msg = "Invalid service role: Service role account ID does not match caller's account"
        raise InvalidInputException(msg)
    arn = f"arn:{self.partition}:codebuild:{self.region}:{self.current_account}:project/{name}"
    if name in backend.codebuild_projects:
        raise ResourceAlreadyExistsException(f"Project already exists: {arn}")
    project = CodeBuild(
        self.current_account,
        self.region,
        project_name=name,
        description=request.get("description"),
        project_source=request["source"],
        artifacts=request["artifacts"],
        environment=request["environment"],
        serviceRole=request["serviceRole"],
        tags=request.get("tags", []),
    )
    _apply(project, {**_DEFAULTS, **request})
    backend.codebuild_projects[name] = project
    backend.build_history[name] = []
    return ActionResult({"project": project.project_metadata})


@patch.adds(CodeBuildResponse, "update_project")
def _update_project(self: CodeBuildResponse) -> ActionResult:
    """Replace the properties in the request; the project keeps the others."""
    request = _request(self)
    project = self.codebuild_backend.codebuild_projects.get(request["name"])
    if project is None:
        raise ResourceNotFoundException(f"Project cannot be found: {request['name']}")
    _validate({**project.project_metadata, **request})
    _apply(project, request)
    project.project_metadata["lastModified"] = unix_time()
    return ActionResult({"project": project.project_metadata})


def _apply(project: CodeBuild, request: Mapping[str, Any]) -> None:
    values = dict(request)
    if "badgeEnabled" in values:
        values["badge"] = {"badgeEnabled": values.pop("badgeEnabled")}
    if "environment" in values:
        values["environment"] = {
            "environmentVariables": [],
            "privilegedMode": False,
            "imagePullCredentialsType": "CODEBUILD",
            **values["environment"],
        }
    project.project_metadata |= values
    project.service_role = project.project_metadata["serviceRole"]


def _validate(request: Mapping[str, Any]) -> None:
    source = request["source"]
    if source["type"] not in _WITHOUT_LOCATION and not source.get("location"):
        raise InvalidInputException("Project source location is required")
    if source["type"] == "NO_SOURCE" and not source.get("buildspec"):
        msg = "Invalid project source: buildspec is required when the source type is NO_SOURCE"
        raise InvalidInputException(msg)
    artifacts = request["artifacts"]
    if artifacts["type"] == "S3" and not artifacts.get("location"):
        raise InvalidInputException("Invalid artifacts: location is required for the artifact type S3")


@patch.replaces(CodeBuildResponse, "batch_get_projects")
def _batch_get_projects(self: CodeBuildResponse) -> ActionResult:
    names = self._get_param("names")
    found = self.codebuild_backend.batch_get_projects(names)
    known = {key for project in found for key in (project["name"], project["arn"])}
    return ActionResult(
        {"projects": found, "projectsNotFound": [name for name in names if name not in known]}
    )


def _fleets(backend: CodeBuildBackend) -> dict[str, dict[str, Any]]:
    """Return the fleets of an account and region by ARN. They disappear when moto discards the backend."""
    fleets: dict[str, dict[str, Any]] = backend.__dict__.setdefault("fleets", {})
    return fleets


def _found(backend: CodeBuildBackend, arn: str) -> dict[str, Any]:
    if arn not in _fleets(backend):
        raise ResourceNotFoundException(f"Fleet not found: {arn}")
    return _fleets(backend)[arn]


@patch.adds(CodeBuildResponse, "create_fleet")
def _create(self: CodeBuildResponse) -> ActionResult:
    request, backend = json.loads(self.body), self.codebuild_backend
    if any(fleet["name"] == request["name"] for fleet in _fleets(backend).values()):
        raise ResourceAlreadyExistsException(f"Fleet already exists: {request['name']}")
    identifier, now = str(mock_random.uuid4()), unix_time()
    place = f"arn:{self.partition}:codebuild:{self.region}:{self.current_account}"
    arn = f"{place}:fleet/{request['name']}:{identifier}"
    _fleets(backend)[arn] = {
        "overflowBehavior": "QUEUE",
        **request,
        "arn": arn,
        "id": identifier,
        "created": now,
        "lastModified": now,
        "status": {"statusCode": "ACTIVE"},
    }
    return ActionResult({"fleet": _fleets(backend)[arn]})


@patch.adds(CodeBuildResponse, "update_fleet")
def _update(self: CodeBuildResponse) -> ActionResult:
    """Replace the properties in the request; the fleet keeps the others."""
    request = json.loads(self.body)
    fleet = _found(self.codebuild_backend, request.pop("arn"))
    fleet |= request | {"lastModified": unix_time()}
    return ActionResult({"fleet": fleet})


@patch.adds(CodeBuildResponse, "delete_fleet")
def _delete(self: CodeBuildResponse) -> ActionResult:
    _fleets(self.codebuild_backend).pop(json.loads(self.body)["arn"], None)
    return ActionResult({})


@patch.adds(CodeBuildResponse, "batch_get_fleets")
def _batch_get(self: CodeBuildResponse) -> ActionResult:
    fleets, names = _fleets(self.codebuild_backend), json.loads(self.body)["names"]
    found = [fleet for arn, fleet in fleets.items() if arn in names or fleet["name"] in names]
    known = {name for fleet in found for name in (fleet["arn"], fleet["name"])}
    return ActionResult({"fleets": found, "fleetsNotFound": [name for name in names if name not in known]})
