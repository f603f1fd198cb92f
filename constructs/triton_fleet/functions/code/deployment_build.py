"""Starts a build as a part of a deployment, and tells the deployment how its models came out.

Runs in AWS Lambda, which gets this file alone: it imports nothing but Python and boto3. CloudFormation
invokes it for a resource Custom::TritonBuild, which is there as soon as the build is started, and for a
resource Custom::TritonArtifacts, which is there once its models are published.

Source, read on 2026-11-21:
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref-responses.html
"""

from __future__ import annotations

import json
import logging
import time
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

POLL_S = 15
# What is left of an invocation when it starts the next one.
SPARE_S = 45
# How long AWS may refuse to answer: a new permission takes effect within seconds, a missing one never does.
REFUSED_S = 120
# In bytes; CloudFormation takes 4096 for the whole answer.
LONGEST_REASON = 2000

_RUNNING = ("IN_PROGRESS", "RUNNING", "PENDING_REDRIVE")
_MADE = ("published", "unchanged")

logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)


def handler(
    event: dict[str, Any],
    context: Any,
    *,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Answer the request, or hand it to another invocation when the time of this one is up."""
    try:
        if event["ResourceType"] == "Custom::TritonBuild":
            _start_or_stop(event)
        elif event["RequestType"] == "Delete":  # nothing was made
            _answer(event)
        else:
            artifacts = _wait(event, context, clock=clock, sleep=sleep)
            # "resnet50:torchscript" is no name of an attribute.
            _answer(event, data={model.replace(":", "."): name for model, name in artifacts.items()})
    except _OutOfTimeError:
        _invoke_again(event, context)
    except _FailedError as error:
        _answer(event, failure=str(error))
    except Exception as error:  # without an answer, CloudFormation waits for the whole time-out
        logger.exception("It failed")
        _answer(event, failure=f"It failed with {type(error).__name__}: {error}")


class _OutOfTimeError(Exception):
    """An invocation has to end before its request can be answered."""


class _FailedError(Exception):
    """A model was not built; the text says which, why, and what to do."""


def _start_or_stop(event: dict[str, Any]) -> None:
    """Start the build of a new or changed resource; end that of one that is gone, if it still runs.

    Another build is another resource, so that CloudFormation deletes the one before, and what a deployment
    that was undone has started does not go on.
    """
    if event["RequestType"] == "Delete":
        _stop(event["PhysicalResourceId"])
        _answer(event)
        return
    started = _start(event["ResourceProperties"], event["RequestId"])
    _answer(event, physical_id=started, data={"Run": event["RequestId"]})


def _start(wanted: Mapping[str, Any], run: str) -> str:
    """Start a build, or a run of builds; asked again with the same name, there is still one of it."""
    try:
        if "StateMachine" in wanted:
            states = boto3.client("stepfunctions")
            started = states.start_execution(stateMachineArn=wanted["StateMachine"], name=run)
            return str(started["executionArn"])
        verdicts = f"{wanted['Runs']}{run}/verdicts/0.json"
        build = boto3.client("codebuild").start_build(
            projectName=wanted["Project"],
            idempotencyToken=run,
            environmentVariablesOverride=[{"name": "FLEET_VERDICTS", "value": verdicts, "type": "PLAINTEXT"}],
        )
        return str(build["build"]["id"])
    except ClientError as error:
        advice = ""
        if error.response["Error"]["Code"] == "AccountLimitExceededException":
            advice = " The quota of builds on this machine is 0 in a new account: see `fleet quotas`."
        raise _FailedError(f"The build of the models could not be started: {error}.{advice}") from error


def _stop(started: str) -> None:
    """End what was started, if it still runs. Of a resource that was never made the id names nothing."""
    try:
        if started.startswith("arn:"):
            if _status(started)[0] in _RUNNING:
                boto3.client("stepfunctions").stop_execution(executionArn=started, cause="Its stack is gone")
        elif ":" in started and _status(started)[0] in _RUNNING:
            boto3.client("codebuild").stop_build(id=started)
    except (BotoCoreError, ClientError) as error:  # what cannot be stopped keeps no stack from going
        logger.warning("%s was not stopped: %s", started, error)


def _status(started: str) -> tuple[str, str]:
    """How a build or a run is doing, and where to read about it."""
    if started.startswith("arn:"):
        run = boto3.client("stepfunctions").describe_execution(executionArn=started)
        return run["status"], run.get("cause") or started
    builds = boto3.client("codebuild").batch_get_builds(ids=[started])["builds"]
    if not builds:
        return "GONE", started
    return builds[0]["buildStatus"], builds[0].get("logs", {}).get("deepLink") or started


def _wait(
    event: dict[str, Any], context: Any, *, clock: Callable[[], float], sleep: Callable[[float], None]
) -> dict[str, str]:
    """Wait for the models; gives the artifact of each.

    Raises:
        _FailedError: One of them was not built, or not in time.
    """
    wanted = event["ResourceProperties"]
    # Kept in the event, so that the invocations after this one end at the same time.
    deadline = event.setdefault("Deadline", clock() + float(wanted["WaitSeconds"]))
    answered = clock()
    missing = list(wanted["Models"])
    while True:
        try:
            status, log = _status(wanted["Build"])
            verdicts = _verdicts(wanted)  # read after the status: the last of them is there when it has ended
            answered = clock()
        except (BotoCoreError, ClientError) as error:
            if clock() - answered >= REFUSED_S:
                raise
            logger.warning("AWS did not answer: %s", error)
        else:
            artifacts = _artifacts(wanted, verdicts, status, log)
            missing = [model for model in wanted["Models"] if model not in artifacts]
            if not missing:
                return artifacts
        if clock() >= deadline:
            raise _FailedError(_late(wanted, missing))
        if context.get_remaining_time_in_millis() < SPARE_S * 1000:
            raise _OutOfTimeError
        logger.info("Waiting for %s", ", ".join(missing))
        sleep(min(POLL_S, max(0.0, deadline - clock())))


def _verdicts(wanted: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """How each model came out that a build is done with."""
    s3 = boto3.client("s3")
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=wanted["Bucket"], Prefix=f"{wanted['RunsPrefix']}{wanted['Run']}/verdicts/"
    )
    found = {}
    for each in (each for page in pages for each in page.get("Contents", [])):
        document = json.loads(s3.get_object(Bucket=wanted["Bucket"], Key=each["Key"])["Body"].read())
        for verdict in document["models"]:
            # While its build goes on, a model that it has not come to is in the document as well.
            if document["finished"] or verdict["step"] != "wait":
                found[verdict["model"]] = verdict
    return found


def _artifacts(
    wanted: Mapping[str, Any], verdicts: Mapping[str, dict[str, Any]], status: str, log: str
) -> dict[str, str]:
    """The artifacts of the models that are published.

    Raises:
        _FailedError: A model was not built, or all has ended without a word about it.
    """
    artifacts = {}
    for model in wanted["Models"]:
        verdict = verdicts.get(model)
        if verdict and verdict["result"] in _MADE:
            artifacts[model] = verdict["artifact"]
        elif verdict and status not in _RUNNING:
            # While it runs, a build whose machine failed is started once more, and writes another verdict.
            raise _FailedError(_failed(model, verdict))
        elif verdict and not wanted["Build"].startswith("arn:"):
            raise _FailedError(_failed(model, verdict))
        elif not verdict and status == "SUCCEEDED":
            artifacts[model] = _current(wanted, model)
        elif not verdict and status not in _RUNNING:
            raise _FailedError(f"The build that makes {model} ended as {status} without it. Read: {log}")
    return artifacts


def _failed(model: str, verdict: Mapping[str, Any]) -> str:
    problem = (verdict["problems"] or [{"what": "no reason was given", "fix": ""}])[0]
    log = f" Log: {verdict['log']}." if verdict.get("log") else ""
    return f"{model} failed in the step {verdict['step']}: {problem['what']}. {problem['fix']}.{log}"


def _late(wanted: Mapping[str, Any], missing: list[str]) -> str:
    minutes = float(wanted["WaitSeconds"]) / 60
    return (
        f"{', '.join(missing)} not built within {minutes:.0f} min, by {wanted['Build']}. Wait for its end "
        "without a deployment, then deploy again with the artifacts that it has published."
    )


def _current(wanted: Mapping[str, Any], model: str) -> str:
    """The artifact of a model that was not built because nothing about it has changed."""
    manifest = boto3.client("s3").get_object(Bucket=wanted["Bucket"], Key=wanted["ManifestKey"])
    models = json.loads(manifest["Body"].read())["models"]
    if model not in models:
        raise _FailedError(f"{model} is not in the repository, and the build had nothing to say about it.")
    return str(models[model]["current"])


def _invoke_again(event: dict[str, Any], context: Any) -> None:
    boto3.client("lambda").invoke(
        FunctionName=context.invoked_function_arn,
        InvocationType="Event",
        Payload=json.dumps(event).encode(),
    )


def _answer(
    event: dict[str, Any],
    *,
    failure: str = "",
    physical_id: str = "",
    data: Mapping[str, str] | None = None,
) -> None:
    """Put the answer where CloudFormation looks for it. After an error here Lambda invokes this once more."""
    answer = {
        "Status": "FAILED" if failure else "SUCCESS",
        "Reason": failure.encode()[:LONGEST_REASON].decode(errors="ignore"),
        "PhysicalResourceId": physical_id or event.get("PhysicalResourceId") or event["LogicalResourceId"],
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "Data": dict(data or {}),
    }
    logger.info("Answering %s %s", answer["Status"], answer["Reason"])
    request = urllib.request.Request(  # noqa: S310 -- the URL is CloudFormation's own
        event["ResponseURL"],
        data=json.dumps(answer, ensure_ascii=False).encode(),
        method="PUT",
        headers={"Content-Type": ""},  # the URL is signed for an empty one
    )
    with urllib.request.urlopen(request, timeout=30):  # noqa: S310
        pass
