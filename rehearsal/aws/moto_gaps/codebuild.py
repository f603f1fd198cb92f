"""CodeBuild projects and builds.

moto's gaps:
- A project keeps only some of what it was created with, and a source without a location is refused even where
  there can be none.
- UpdateProject is not there.
- A build ignores the project and every override: its source, image and variables are made up.
- A build is SUCCEEDED as soon as someone asks for it. Here a build is in progress until `finish_build`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
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

from rehearsal.aws.moto_gaps import mend

# What CodeBuild shows of a project that does not say. Source: CodeBuild API reference, CreateProject.
_DEFAULTS: Mapping[str, Any] = {
    "timeoutInMinutes": 60,
    "queuedTimeoutInMinutes": 480,
    "cache": {"type": "NO_CACHE"},
    "badge": {"badgeEnabled": False},
}
_WITHOUT_LOCATION = ("CODEPIPELINE", "NO_SOURCE")

# StartBuild's overrides, by the part of the project that each replaces and its name there.
_OVERRIDES = {
    "source": {
        "sourceTypeOverride": "type",
        "sourceLocationOverride": "location",
        "buildspecOverride": "buildspec",
        "gitCloneDepthOverride": "gitCloneDepth",
        "insecureSslOverride": "insecureSsl",
    },
    "environment": {
        "environmentTypeOverride": "type",
        "imageOverride": "image",
        "computeTypeOverride": "computeType",
        "certificateOverride": "certificate",
        "privilegedModeOverride": "privilegedMode",
        "imagePullCredentialsTypeOverride": "imagePullCredentialsType",
        "registryCredentialOverride": "registryCredential",
        "fleetOverride": "fleet",
    },
}
_WHOLE_OVERRIDES = {
    "artifactsOverride": "artifacts",
    "secondarySourcesOverride": "secondarySources",
    "secondaryArtifactsOverride": "secondaryArtifacts",
    "cacheOverride": "cache",
    "serviceRoleOverride": "serviceRole",
    "timeoutInMinutesOverride": "timeoutInMinutes",
    "queuedTimeoutInMinutesOverride": "queuedTimeoutInMinutes",
    "encryptionKeyOverride": "encryptionKey",
    "sourceVersion": "sourceVersion",
}
_BUILD_PARTS = (
    "source",
    "environment",
    "artifacts",
    "secondarySources",
    "secondaryArtifacts",
    "cache",
    "serviceRole",
    "timeoutInMinutes",
    "queuedTimeoutInMinutes",
    "encryptionKey",
    "sourceVersion",
    "vpcConfig",
    "fileSystemLocations",
)
_FINISHED = ("SUCCEEDED", "FAILED", "FAULT", "TIMED_OUT", "STOPPED")


def finish_build(
    backend: CodeBuildBackend, build_id: str, *, status: str, phases: Sequence[Mapping[str, Any]] = ()
) -> None:
    """Record how a build that runs elsewhere came out.

    Args:
        backend: The CodeBuild of the build's account and region.
        build_id: The id that StartBuild returned.
        status: CodeBuild's word: SUCCEEDED, FAILED, FAULT, TIMED_OUT or STOPPED.
        phases: The phases that ran, as the API shows them; empty if nobody kept them.

    Raises:
        LookupError: There is no such build.
        ValueError: That is no status of a finished build.
    """
    if status not in _FINISHED:
        msg = f"a finished build is one of {', '.join(_FINISHED)}; {status!r} was given"
        raise ValueError(msg)
    build = next(iter(_builds(backend, [build_id])), None)
    if build is None:
        msg = f"no build {build_id} was started"
        raise LookupError(msg)
    now = unix_time()
    queued = build["phases"][-1]
    if queued["phaseType"] == "QUEUED":
        queued |= {"phaseStatus": "SUCCEEDED", "endTime": now, "durationInSeconds": 0}
    build["phases"] += [dict(phase) for phase in phases]
    build["phases"].append({"phaseType": "COMPLETED", "startTime": now})
    build |= {"buildStatus": status, "buildComplete": True, "currentPhase": "COMPLETED", "endTime": now}


def _request(response: CodeBuildResponse) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(response.body)
    return found


def _create_project(self: CodeBuildResponse) -> ActionResult:
    request, backend = _request(self), self.codebuild_backend
    name = request["name"]
    _validate(request)
    arn = f"arn:aws:codebuild:{self.region}:{self.current_account}:project/{name}"
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
    _settle(project, {**_DEFAULTS, **request})
    backend.codebuild_projects[name] = project
    backend.build_history[name] = []
    return ActionResult({"project": project.project_metadata})


def _update_project(self: CodeBuildResponse) -> ActionResult:
    """Replace what the request names; a project keeps the rest."""
    request = _request(self)
    project = self.codebuild_backend.codebuild_projects.get(request["name"])
    if project is None:
        msg = f"Project cannot be found: {request['name']}"
        raise ResourceNotFoundException(msg)
    _validate({**project.project_metadata, **request})
    _settle(project, request)
    project.project_metadata["lastModified"] = unix_time()
    return ActionResult({"project": project.project_metadata})


def _settle(project: CodeBuild, request: Mapping[str, Any]) -> None:
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


def _start_build(self: CodeBuildResponse) -> ActionResult:
    request, backend = _request(self), self.codebuild_backend
    name = request["projectName"].rsplit("/", 1)[-1]
    project = backend.codebuild_projects.get(name)
    if project is None:
        msg = (
            f"Project cannot be found: arn:aws:codebuild:{self.region}:{self.current_account}:project/{name}"
        )
        raise ResourceNotFoundException(msg)
    build = _new_build(backend, name, project.project_metadata, request)
    backend.build_history[name].append(build["id"])
    backend.build_metadata_history[name].append(build)
    return ActionResult({"build": build})


def _new_build(
    backend: CodeBuildBackend, name: str, project: Mapping[str, Any], request: Mapping[str, Any]
) -> dict[str, Any]:
    build_id, now = f"{name}:{mock_random.uuid4()}", unix_time()
    build = {part: project[part] for part in _BUILD_PARTS if part in project}
    build |= {part: request[key] for key, part in _WHOLE_OVERRIDES.items() if key in request}
    for part, names in _OVERRIDES.items():
        changes = {field: request[key] for key, field in names.items() if key in request}
        build[part] = {**project[part], **changes}
    build["environment"]["environmentVariables"] = _merged(
        project["environment"].get("environmentVariables", ()),
        request.get("environmentVariablesOverride", ()),
    )
    return build | {
        "id": build_id,
        "arn": f"arn:aws:codebuild:{backend.region_name}:{backend.account_id}:build/{build_id}",
        "buildNumber": len(backend.build_history[name]) + 1,
        "projectName": name,
        "startTime": now,
        "currentPhase": "QUEUED",
        "buildStatus": "IN_PROGRESS",
        "buildComplete": False,
        "phases": [
            {
                "phaseType": "SUBMITTED",
                "phaseStatus": "SUCCEEDED",
                "startTime": now,
                "endTime": now,
                "durationInSeconds": 0,
            },
            {"phaseType": "QUEUED", "startTime": now},
        ],
    }


def _merged(
    declared: Iterable[Mapping[str, str]], overrides: Iterable[Mapping[str, str]]
) -> list[dict[str, str]]:
    """The project's variables with the build's in their place, then the build's own."""
    by_name = {variable["name"]: {"type": "PLAINTEXT", **variable} for variable in declared}
    by_name |= {variable["name"]: {"type": "PLAINTEXT", **variable} for variable in overrides}
    return list(by_name.values())


def _builds(backend: CodeBuildBackend, ids: Sequence[str]) -> list[dict[str, Any]]:
    history = backend.build_metadata_history.values()
    found = {build["id"]: build for builds in history for build in builds}
    by_arn = {build["arn"]: build for build in found.values()}
    return [{**found, **by_arn}[wanted] for wanted in ids if wanted in found or wanted in by_arn]


def _batch_get_builds(self: CodeBuildResponse) -> ActionResult:
    wanted = self._get_param("ids")
    builds = _builds(self.codebuild_backend, wanted)
    known = {name for build in builds for name in (build["id"], build["arn"])}
    return ActionResult({"builds": builds, "buildsNotFound": [name for name in wanted if name not in known]})


def _stop_build(self: CodeBuildResponse) -> ActionResult:
    build_id = self._get_param("id")
    builds = _builds(self.codebuild_backend, [build_id])
    if not builds:
        msg = f"Build {build_id} does not exist"
        raise ResourceNotFoundException(msg)
    if not builds[0]["buildComplete"]:
        finish_build(self.codebuild_backend, builds[0]["id"], status="STOPPED")
    return ActionResult({"build": builds[0]})


def _batch_get_projects(self: CodeBuildResponse) -> ActionResult:
    names = self._get_param("names")
    found = self.codebuild_backend.batch_get_projects(names)
    known = {key for project in found for key in (project["name"], project["arn"])}
    return ActionResult(
        {"projects": found, "projectsNotFound": [name for name in names if name not in known]}
    )


def install() -> None:
    """Close the gaps."""
    mend.add(CodeBuildResponse, update_project=_update_project)
    mend.replace(
        CodeBuildResponse,
        create_project=_create_project,
        start_build=_start_build,
        stop_build=_stop_build,
        batch_get_builds=_batch_get_builds,
        batch_get_projects=_batch_get_projects,
    )
