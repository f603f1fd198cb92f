"""Checks that an endpoint has an artifact for every name that a fleet serves, before the fleet moves to it.

Runs in AWS Lambda, which gets this file alone: it imports nothing but Python, boto3, `answer` and `names`.
CloudFormation invokes it for a resource Custom::TritonNames, before the new endpoint is created and once more
before the alias moves.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from triton_fleet.endpoint.functions.code.answer import put_answer
from triton_fleet.endpoint.functions.code.names import artifact_on, covers, models_of

POLL_S = 10
# How long AWS may refuse to answer: a new permission takes effect within seconds, a missing one never does.
REFUSED_S = 120
NAMED = 20
# What differs between builds of the same sources.
_NOT_SOURCES = ("release", "hardware", "tools", "packages")

logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)


def handler(
    event: dict[str, Any],
    context: Any,  # noqa: ARG001 -- Lambda passes it
    *,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Answer the request. Only what is created is checked: another endpoint is another resource."""
    failure = ""
    if event["RequestType"] == "Create":
        began = clock()
        while True:
            try:
                failure = _failure(event["ResourceProperties"])
                break
            except (BotoCoreError, ClientError) as error:
                if clock() - began >= REFUSED_S:
                    failure = f"The names of the fleet cannot be checked: {error}"
                    break
                logger.warning("AWS did not answer: %s", error)
                sleep(POLL_S)
            except Exception as error:  # without an answer, CloudFormation waits until the time-out
                logger.exception("Checking failed")
                failure = f"Checking the names of the fleet failed with {type(error).__name__}: {error}"
                break
    put_answer(event, failure=failure)


def _failure(wanted: Mapping[str, Any]) -> str:
    """Return the reason why the fleet cannot move to the endpoint; "" if it can."""
    serving = _serving(wanted["Alias"])
    if serving is None:
        return ""  # a first deployment: no application asks for anything yet
    target, old = wanted["Target"], serving.get("target")
    models, not_needed = _models(wanted), set(wanted.get("NotNeeded") or ())
    needed = {
        name: model
        for name, model in models.items()
        if name not in not_needed and (old is None or artifact_on(model, old) is not None)
    }
    missing = sorted(name for name, model in needed.items() if artifact_on(model, target) is None)
    if missing:
        return (
            f"{len(missing)} of {len(needed)} models that the fleet serves have no artifact for {target}. "
            f"Build them for that release and GPU, or name those no longer needed in retired_models of "
            f"cdk.json (not_needed of EndpointAlias), then deploy again. Missing: {_some(missing)}"
        )
    undone = sorted(name for name, model in needed.items() if old and _undone(model, old, target))
    if undone:
        return (
            f"{len(undone)} models were rolled back on {old}, but not on {target}. Correct their sources, or "
            f"publish the artifacts of the rollback for {target}, then deploy again. Models: {_some(undone)}"
        )
    return ""


def _serving(alias: str) -> dict[str, Any] | None:
    """The endpoint that the alias names, and its target; None if there is no alias yet."""
    try:
        value = boto3.client("ssm").get_parameter(Name=alias)["Parameter"]["Value"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ParameterNotFound":
            return None
        raise
    return dict(json.loads(value)) if value.startswith("{") else {"endpoint": value}


def _models(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The models of the repository; none before the first publication."""
    s3, where = boto3.client("s3"), {"Bucket": wanted["Bucket"]}
    # Asked by listing: without the permission to list everything, S3 denies what is not there.
    listed = s3.list_objects_v2(**where, Prefix=wanted["ManifestKey"], MaxKeys=1)
    if not listed.get("Contents"):
        return {}
    return models_of(s3.get_object(**where, Key=wanted["ManifestKey"])["Body"].read())


def _undone(model: Mapping[str, Any], old: str, target: str) -> bool:
    """Return whether the new target has a build of the sources that were rolled back from on the old one."""
    if isinstance(model["current"], str):
        return False
    changes = [change for change in model["history"] if covers(change["target"], old)]
    if not changes or changes[-1]["how"] != "rollback":
        return False
    published = [change["artifact"] for change in changes if change["how"] == "publish"]
    left, new = published[-1:], artifact_on(dict(model), target)
    if not left or left[0] == artifact_on(dict(model), old):
        return False
    sources = [_sources(model, name) for name in (left[0], str(new))]
    return bool(sources[0]) and sources[0] == sources[1]


def _sources(model: Mapping[str, Any], artifact: str) -> dict[str, str]:
    inputs = model["artifacts"].get(artifact, {}).get("inputs", {})
    return {topic: digest for topic, digest in inputs.items() if topic not in _NOT_SOURCES}


def _some(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
