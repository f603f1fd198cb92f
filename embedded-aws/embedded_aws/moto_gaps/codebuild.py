"""CodeBuild projects.

moto's gaps:
- A project keeps only some of its properties. A source without a location is refused, even if its type never
  has one.
- It lacks UpdateProject.
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
from moto.codebuild.models import CodeBuild
from moto.codebuild.responses import CodeBuildResponse
from moto.core.responses import ActionResult
from moto.core.utils import unix_time

from embedded_aws.moto_gaps import patch
from embedded_aws.moto_gaps.constraints import violations

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


def _create_project(self: CodeBuildResponse) -> ActionResult:
    request, backend = _request(self), self.codebuild_backend
    name = request["name"]
    for violated in violations("codebuild", "CreateProject", request):
        msg = f"1 validation error detected: {violated}"
        raise InvalidInputException(msg)
    _validate(request)
    if not request["serviceRole"].startswith(f"arn:{self.partition}:iam::{self.current_account}:role/"):
        msg = "Invalid service role: Service role account ID does not match caller's account"
        raise InvalidInputException(msg)
    arn = f"arn:{self.partition}:codebuild:{self.region}:{self.current_account}:project/{name}"
    if name in backend.codebuild_projects:
        msg = f"Project already exists: {arn}"
        raise ResourceAlreadyExistsException(msg)
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


def _update_project(self: CodeBuildResponse) -> ActionResult:
    """Replace the properties in the request; the project keeps the others."""
    request = _request(self)
    project = self.codebuild_backend.codebuild_projects.get(request["name"])
    if project is None:
        msg = f"Project cannot be found: {request['name']}"
        raise ResourceNotFoundException(msg)
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
        msg = "Project source location is required"
        raise InvalidInputException(msg)
    if source["type"] == "NO_SOURCE" and not source.get("buildspec"):
        msg = "Invalid project source: buildspec is required when the source type is NO_SOURCE"
        raise InvalidInputException(msg)
    artifacts = request["artifacts"]
    if artifacts["type"] == "S3" and not artifacts.get("location"):
        msg = "Invalid artifacts: location is required for the artifact type S3"
        raise InvalidInputException(msg)


def _batch_get_projects(self: CodeBuildResponse) -> ActionResult:
    names = self._get_param("names")
    found = self.codebuild_backend.batch_get_projects(names)
    known = {key for project in found for key in (project["name"], project["arn"])}
    return ActionResult(
        {"projects": found, "projectsNotFound": [name for name in names if name not in known]}
    )


def install() -> None:
    """Close the gaps."""
    patch.add(CodeBuildResponse, update_project=_update_project)
    patch.replace(CodeBuildResponse, create_project=_create_project, batch_get_projects=_batch_get_projects)
