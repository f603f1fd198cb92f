"""CodeBuild's builds.

moto's gaps:
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

from moto.codebuild.exceptions import InvalidInputException, ResourceNotFoundException
from moto.codebuild.models import CodeBuildBackend, codebuild_backends
from moto.codebuild.responses import CodeBuildResponse
from moto.core.responses import ActionResult
from moto.core.utils import get_service_model, unix_time
from moto.moto_api._internal import mock_random
from moto.utilities.utils import get_partition

from embedded_aws.builds import LOCK, ONE_ENDED, BuildRecord, BuildRunner
from embedded_aws.moto_gaps import patch
from embedded_aws.moto_gaps.requests import page

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
    """The connected runner, if any."""

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
    """Record the outcome of a build that runs elsewhere."""
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
    """Return the project's variables, overridden in place by the build's, then the build's others."""
    by_name = {variable["name"]: {"type": "PLAINTEXT", **variable} for variable in declared}
    by_name |= {variable["name"]: {"type": "PLAINTEXT", **variable} for variable in overrides}
    return list(by_name.values())


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
    """Answer with a page of builds, which are given with the oldest first."""
    records = _builds(response.codebuild_backend, ids)
    records.sort(key=lambda build: build["startTime"])
    ordered = [str(build["id"]) for build in records]
    if response._get_param("sortOrder") != "ASCENDING":
        ordered.reverse()
    request, refusal = json.loads(response.body), InvalidInputException("Invalid token")
    return ActionResult(page(request, "ids", ordered, size=_LISTED, token="nextToken", refusal=refusal))  # noqa: S106
