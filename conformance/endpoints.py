"""Endpoints of the suite: their start, requests to them, and their updates."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from conformance.account import Account, denied, hindrance
from conformance.models import body
from conformance.sweep import absent

LOG_GROUPS = "/aws/sagemaker/Endpoints/"
START_MINUTES = 45.0
NOT_READY = "ModelNotReadyException"
INSPECTOR = "inspector-1.tar.gz"

Reply = Mapping[str, Any]


@contextmanager
def hosted(aws: Any) -> Iterator[str]:
    """Host the endpoints of the embedded AWS with Triton servers of this machine. Requests wait for 0.7 s."""
    from triton_rehearsal.hosting.service import Hosting

    with Hosting(aws, lookup_s=0.0, load_wait_s=0.7) as hosting:
        yield hosting.url


def markers(aws: Account) -> str:
    return f"/tmp/{aws.name('markers')}"  # noqa: S108  in the container


def container(aws: Account, suffix: str) -> str:
    """Create the model and the log group of an endpoint of that name, and return the name.

    The role must not create the group: a late line could create it again after its removal.
    """
    aws.log_group(f"{LOG_GROUPS}{aws.name(suffix)}")
    return aws.model(suffix)


def create(aws: Account, name: str, config: str) -> None:
    aws.client("sagemaker").create_endpoint(EndpointName=name, EndpointConfigName=config, Tags=aws.tags)


def settled(aws: Account, name: str) -> Mapping[str, Any]:
    """Wait until an endpoint's creation or update has succeeded or failed, and return its description."""

    def look() -> Mapping[str, Any] | None:
        found: Mapping[str, Any] = aws.client("sagemaker").describe_endpoint(EndpointName=name)
        waits = {"Creating", "Updating", "SystemUpdating", "RollingBack"}
        return None if found["EndpointStatus"] in waits else found

    return aws.until(look, minutes=START_MINUTES, what=f"the endpoint {name}")


def serving(aws: Account, name: str) -> str:
    """Return an endpoint's name once it serves. Without it, a test is skipped."""
    found = settled(aws, name)
    if found["EndpointStatus"] != "InService":
        why = found.get("FailureReason", "without a reason")
        pytest.skip(hindrance(why) or f"the endpoint {name} is {found['EndpointStatus']}: {why}")
    return name


def deployment(aws: Account, alarm: str = "", bakes: int = 1) -> dict[str, Any]:
    """Return a deployment that moves all traffic at once, bakes, and rolls back on the alarm, if any."""
    # The embedded AWS refuses nothing that AWS accepts: a bake of ten minutes is over at once.
    routing = {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": bakes * (600 if aws.embedded else 60)}
    policy = {
        "TrafficRoutingConfiguration": routing,
        "MaximumExecutionTimeoutInSeconds": 3600,
        "TerminationWaitInSeconds": 0,
    }
    watched = {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": alarm}]}} if alarm else {}
    return {"BlueGreenUpdatePolicy": policy, **watched}


def invoke(
    aws: Account, name: str, target: str, asked: Mapping[str, Any] | None = None, **more: Any
) -> Reply:
    """Return the reply once the model is loaded: status, code, text, original, answer and session."""

    def look() -> Reply | None:
        reply = invoke_once(aws, name, target, asked, **more)
        return None if reply["code"] == NOT_READY else reply

    return aws.until(look, minutes=6, what=f"the load of {target}")


def invoke_once(
    aws: Account, name: str, target: str, asked: Mapping[str, Any] | None = None, **more: Any
) -> Reply:
    request = {"ContentType": "application/json", "Body": body(asked or {}), **more}
    if target:
        request["TargetModel"] = target
    reply = {"status": 0, "code": "", "text": "", "original": "", "answer": {}, "session": ""}
    try:
        found = aws.client("sagemaker-runtime").invoke_endpoint(EndpointName=name, **request)
    except ClientError as error:
        if denied(error):
            raise
        said, status = error.response["Error"], error.response["ResponseMetadata"]["HTTPStatusCode"]
        original: Any = error.response.get("OriginalMessage", "")
        named = {"code": said["Code"], "text": said["Message"], "original": original}
        return {**reply, **named, "status": status}
    except BotoCoreError as error:  # a connection that ends is an answer as well
        return {**reply, "code": type(error).__name__, "text": str(error)}
    answer = json.loads(json.loads(found["Body"].read())["outputs"][0]["data"][0])
    return {**reply, "status": 200, "answer": answer, "session": found.get("NewSessionId", "")}


def log_streams(aws: Account, name: str) -> list[str] | None:
    """Return the log streams of an endpoint; None if it has no log group."""
    try:
        found = aws.client("logs").describe_log_streams(logGroupName=f"{LOG_GROUPS}{name}")
    except ClientError as error:
        if not absent(error):
            raise
        return None
    return [each["logStreamName"] for each in found["logStreams"]]
