"""CodeBuild's fleets of reserved machines, which moto lacks. A new fleet is ACTIVE at once."""

from __future__ import annotations

import json
from typing import Any

from moto.codebuild.exceptions import ResourceAlreadyExistsException, ResourceNotFoundException
from moto.codebuild.models import CodeBuildBackend
from moto.codebuild.responses import CodeBuildResponse
from moto.core.responses import ActionResult
from moto.core.utils import unix_time
from moto.moto_api._internal import mock_random

from embedded_aws.moto_gaps import patch


def _fleets(backend: CodeBuildBackend) -> dict[str, dict[str, Any]]:
    """Return the fleets of an account and region by ARN. They disappear when moto discards the backend."""
    fleets: dict[str, dict[str, Any]] = backend.__dict__.setdefault("fleets", {})
    return fleets


def _found(backend: CodeBuildBackend, arn: str) -> dict[str, Any]:
    if arn not in _fleets(backend):
        msg = f"Fleet not found: {arn}"
        raise ResourceNotFoundException(msg)
    return _fleets(backend)[arn]


def _create(self: CodeBuildResponse) -> ActionResult:
    request, backend = json.loads(self.body), self.codebuild_backend
    if any(fleet["name"] == request["name"] for fleet in _fleets(backend).values()):
        msg = f"Fleet already exists: {request['name']}"
        raise ResourceAlreadyExistsException(msg)
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


def _update(self: CodeBuildResponse) -> ActionResult:
    """Replace the properties in the request; the fleet keeps the others."""
    request = json.loads(self.body)
    fleet = _found(self.codebuild_backend, request.pop("arn"))
    fleet |= request | {"lastModified": unix_time()}
    return ActionResult({"fleet": fleet})


def _delete(self: CodeBuildResponse) -> ActionResult:
    _fleets(self.codebuild_backend).pop(json.loads(self.body)["arn"], None)
    return ActionResult({})


def _batch_get(self: CodeBuildResponse) -> ActionResult:
    fleets, names = _fleets(self.codebuild_backend), json.loads(self.body)["names"]
    found = [fleet for arn, fleet in fleets.items() if arn in names or fleet["name"] in names]
    known = {name for fleet in found for name in (fleet["arn"], fleet["name"])}
    return ActionResult({"fleets": found, "fleetsNotFound": [name for name in names if name not in known]})


def install() -> None:
    """Close the gap."""
    patch.add(
        CodeBuildResponse,
        create_fleet=_create,
        update_fleet=_update,
        delete_fleet=_delete,
        batch_get_fleets=_batch_get,
    )
