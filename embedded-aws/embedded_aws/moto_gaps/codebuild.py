"""CodeBuild's projects, builds, and fleets of reserved machines, which are ACTIVE at once.

moto's gaps:
- A project keeps only some of its properties. A source without a location is refused, even if its type never
  has one.
- It lacks UpdateProject.
- It lacks fleets.
- A build ignores the project and every override: its source, image and variables are invented.
- A build runs nothing and is SUCCEEDED in the first answer. Here it is queued until the connected runner runs
  it, or until `finish_build`.
- A second request with the same idempotency token starts a second build.
- Lists of builds have the oldest first and one page. In AWS the newest are first, 100 on a page.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from moto.codebuild.exceptions import (
    InvalidInputException,
    ResourceAlreadyExistsException,
    ResourceNotFoundException,
)
from moto.codebuild.models import CodeBuild, CodeBuildBackend, codebuild_backends
from moto.codebuild.responses import CodeBuildResponse
from moto.core.responses import ActionResult
from moto.core.utils import get_service_model, unix_time
from moto.moto_api._internal import mock_random
from moto.utilities.utils import get_partition

from embedded_aws.builds import LOCK, ONE_ENDED, BuildRecord, BuildRunner
from embedded_aws.moto_gaps import patch
from embedded_aws.moto_gaps.requests import page, violations

# The defaults of a project. Source: CodeBuild API reference, CreateProject.
_DEFAULTS: Mapping[str, Any] = {
    "timeoutInMinutes": 60,
    "queuedTimeoutInMinutes": 480,
    "cache": {"type": "NO_CACHE"},
    "badge": {"badgeEnabled": False},
}
_WITHOUT_LOCATION = ("CODEPIPELINE", "NO_SOURCE")


@patch.replaces(CodeBuildResponse, "create_project")
def _create_project(self: CodeBuildResponse) -> ActionResult:
    request, backend = json.loads(self.body), self.codebuild_backend
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
    request = json.loads(self.body)
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
    request = json.loads(self.body)
    fleet = _fleets(self.codebuild_backend).get(request["arn"])
    if fleet is None:
        raise ResourceNotFoundException(f"Fleet not found: {request['arn']}")
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


# Overrides that begin with the name of a part. Others have the name of a part, or of a part's field.
_RENAMED = {
    "sourceType": ("source", "type"),
    "sourceLocation": ("source", "location"),
    "environmentType": ("environment", "type"),
}
# https://docs.aws.amazon.com/codebuild/latest/APIReference/API_ListBuildsForProject.html, read 2026-11-23.
_LISTED = 100
_FINISHED = ("SUCCEEDED", "FAILED", "FAULT", "TIMED_OUT", "STOPPED")
_INITIATOR = "embedded-aws"

_moto_list_for_project = CodeBuildResponse.list_builds_for_project


class _Connected:
    runner: BuildRunner | None = None


def connect(runner: BuildRunner | None) -> None:
    _Connected.runner = runner


def wait_for_end(account: str, region: str, build_id: str, *, seconds: float) -> dict[str, Any] | None:
    """Wait for the end of a build, in this process and without a request."""
    record = BuildRecord(_builds(codebuild_backends[account][region], [build_id])[0])
    with ONE_ENDED:
        return record.shown() if ONE_ENDED.wait_for(lambda: record.complete, seconds) else None


def finish_build(
    backend: CodeBuildBackend, build_id: str, *, status: str, phases: Sequence[Mapping[str, Any]] = ()
) -> None:
    if status not in _FINISHED:
        raise ValueError(f"a finished build is one of {', '.join(_FINISHED)}; {status!r} was given")
    build = next(iter(_builds(backend, [build_id])), None)
    if build is None:
        raise LookupError(f"no build {build_id} was started")
    BuildRecord(build).finish(status, phases=phases)


@patch.replaces(CodeBuildResponse, "start_build")
def _start_build(self: CodeBuildResponse) -> ActionResult:
    request, backend = json.loads(self.body), self.codebuild_backend
    name = request["projectName"].rsplit("/", 1)[-1]
    project = backend.codebuild_projects.get(name)
    if project is None:
        place = f"arn:{self.partition}:codebuild:{self.region}:{self.current_account}"
        raise ResourceNotFoundException(f"Project cannot be found: {place}:project/{name}")
    with LOCK:
        tokens: dict[str, dict[str, Any]] = backend.__dict__.setdefault("idempotency_tokens", {})
        token = request.get("idempotencyToken")
        known = tokens.get(token)
        build = known or _new_build(backend, name, project.project_metadata, request)
        if token:
            tokens[token] = build
        if known is None:
            backend.build_history[name].append(build["id"])
            backend.build_metadata_history[name].append(build)
    record = BuildRecord(build)
    answer = record.shown()
    if known is None and _Connected.runner is not None:
        _Connected.runner.start(record)
    return ActionResult({"build": answer})


def _new_build(
    backend: CodeBuildBackend, name: str, project: Mapping[str, Any], request: Mapping[str, Any]
) -> dict[str, Any]:
    build_id, now, region = f"{name}:{mock_random.uuid4()}", unix_time(), backend.region_name
    build: dict[str, Any] = {
        part: copy.deepcopy(project[part]) for part in _members("Build") if part in project
    }
    for key, value in request.items():
        part, field = _overridden(key.removesuffix("Override"))
        if part:
            build[part] = {**build[part], field: value}
        elif field in _members("Build") and field != "environmentVariables":
            build[field] = value
    build["environment"]["environmentVariables"] = _merged(
        project["environment"].get("environmentVariables", ()),
        request.get("environmentVariablesOverride", ()),
    )
    logs = request.get("logsConfigOverride", project.get("logsConfig", {}))
    return build | {
        "id": build_id,
        "arn": f"arn:{get_partition(region)}:codebuild:{region}:{backend.account_id}:build/{build_id}",
        "buildNumber": len(backend.build_history[name]) + 1,
        "projectName": name,
        "initiator": _INITIATOR,
        "startTime": now,
        "currentPhase": "QUEUED",
        "buildStatus": "IN_PROGRESS",
        "buildComplete": False,
        "logs": {"cloudWatchLogs": logs.get("cloudWatchLogs", {"status": "ENABLED"})},
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


def _members(shape: str) -> Mapping[str, Any]:
    found: Any = get_service_model("codebuild").shape_for(shape)
    members: Mapping[str, Any] = found.members
    return members


def _overridden(name: str) -> tuple[str, str]:
    """Return the part and the field that an override replaces; no part if it replaces one."""
    parts = {"source": _members("ProjectSource"), "environment": _members("ProjectEnvironment")}
    part = next((part for part, fields in parts.items() if name in fields), "")
    return _RENAMED.get(name, (part, name))


def _merged(
    declared: Iterable[Mapping[str, str]], overrides: Iterable[Mapping[str, str]]
) -> list[dict[str, str]]:
    given = (*declared, *overrides)
    return list({variable["name"]: {"type": "PLAINTEXT", **variable} for variable in given}.values())


def _builds(backend: CodeBuildBackend, ids: Sequence[str]) -> list[dict[str, Any]]:
    history = list(backend.build_metadata_history.values())
    found = {build["id"]: build for builds in history for build in list(builds)}
    by_arn = {build["arn"]: build for build in found.values()}
    return [{**found, **by_arn}[wanted] for wanted in ids if wanted in found or wanted in by_arn]


def _check_ids(ids: Iterable[str]) -> None:
    if any(":" not in each for each in ids):
        raise InvalidInputException("Invalid build ID provided")


@patch.replaces(CodeBuildResponse, "batch_get_builds")
def _batch_get_builds(self: CodeBuildResponse) -> ActionResult:
    wanted = self._get_param("ids")
    _check_ids(wanted)
    builds = [BuildRecord(build).shown() for build in _builds(self.codebuild_backend, wanted)]
    known = {name for build in builds for name in (build["id"], build["arn"])}
    return ActionResult({"builds": builds, "buildsNotFound": [name for name in wanted if name not in known]})


@patch.replaces(CodeBuildResponse, "stop_build")
def _stop_build(self: CodeBuildResponse) -> ActionResult:
    build_id = self._get_param("id")
    _check_ids([build_id])
    builds = _builds(self.codebuild_backend, [build_id])
    if not builds:
        raise ResourceNotFoundException(f"Build {build_id} does not exist")
    record = BuildRecord(builds[0])
    if not record.complete:
        record.finish("STOPPED")
        if _Connected.runner is not None:
            _Connected.runner.stop(record.id)
    return ActionResult({"build": record.shown()})


@patch.replaces(CodeBuildResponse, "list_builds")
def _list_builds(self: CodeBuildResponse) -> ActionResult:
    return _listed(self, list(self.codebuild_backend.list_builds()))


@patch.replaces(CodeBuildResponse, "list_builds_for_project")
def _list_builds_for_project(self: CodeBuildResponse) -> ActionResult:
    found: Any = _moto_list_for_project(self).result
    return _listed(self, list(found["ids"]))


def _listed(response: CodeBuildResponse, ids: list[str]) -> ActionResult:
    records = _builds(response.codebuild_backend, ids)
    records.sort(key=lambda build: build["startTime"])
    ordered = [str(build["id"]) for build in records]
    if response._get_param("sortOrder") != "ASCENDING":
        ordered.reverse()
    request, refusal = json.loads(response.body), InvalidInputException("Invalid token")
    return ActionResult(page(request, "ids", ordered, size=_LISTED, token="nextToken", refusal=refusal))  # noqa: S106
