"""Starts a build as a part of a deployment, and reports to the deployment how its models came out.

Runs in AWS Lambda, which gets this file alone: it imports nothing but Python, boto3, `answer`, `names`
and `successor`.
CloudFormation invokes it for a resource Custom::TritonBuild, which is there as soon as the build is started;
for a resource Custom::TritonArtifacts, which is there once its models are published, with their names, or
Custom::TritonModels, which has any number of them and no names; and for a resource Custom::TritonTarget,
which is there once every model that other targets have is built for its own.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from triton_fleet.endpoint.functions.code.answer import put_answer
from triton_fleet.endpoint.functions.code.names import covers, models_of, moved_for
from triton_fleet.endpoint.functions.code.successor import OutOfTimeError, check_time, invoke_again

POLL_S = 15
# How long AWS may refuse to answer: a new permission takes effect within seconds, a missing one never does.
REFUSED_S = 120
# How many answers may fail until one that is refused is not waited for: the permission may be seconds old.
QUOTA_READS = 3
# In bytes: the answer has the names of artifacts, too.
LONGEST_REASON = 2000

_REFUSED = ("AccessDenied", "AccessDeniedException")
_RUNNING = ("IN_PROGRESS", "RUNNING", "PENDING_REDRIVE")
_FORGOTTEN = "FORGOTTEN"
# A build that ended so has said all there is to say: a model without a result is as the manifest has it.
_ENDED = ("SUCCEEDED", _FORGOTTEN)
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
        if event["RequestType"] == "Update" and _is_rolling_back(event["StackId"]):
            _answer_rollback(event)
        elif event["ResourceType"] == "Custom::TritonBuild":
            _start_or_stop(event, clock=clock, sleep=sleep)
        elif event["RequestType"] == "Delete":  # nothing was made
            put_answer(event)
        elif event["ResourceType"] == "Custom::TritonTarget":
            # Another target is another resource, so an update finds the target filled.
            if event["RequestType"] == "Create":
                _wait(event, context, clock=clock, sleep=sleep)
            put_answer(event)
        else:
            artifacts = _wait(event, context, clock=clock, sleep=sleep)
            put_answer(event, data=_attributes(event, artifacts))
    except OutOfTimeError:
        invoke_again(event, context)
    except _FailedError as error:
        put_answer(event, failure=str(error), longest_reason=LONGEST_REASON)
    except Exception as error:  # without an answer, CloudFormation waits until the time-out
        logger.exception("It failed")
        failure = f"It failed with {type(error).__name__}: {error}"
        put_answer(event, failure=failure, longest_reason=LONGEST_REASON)


class _FailedError(Exception):
    """A model was not built; the text says which, why, and what to do."""


def _is_rolling_back(stack: str) -> bool:
    """Return whether a stack is on its way back to what it was; False where AWS does not say."""
    try:
        stacks = boto3.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    except (BotoCoreError, ClientError) as error:
        logger.warning("The stack's status was not read: %s", error)
        return False
    return bool(re.fullmatch(r"\w*ROLLBACK_IN_PROGRESS", stacks[0]["StackStatus"]))


def _answer_rollback(event: dict[str, Any]) -> None:
    """Answer at once: a rollback starts no build, waits for none, and fails for none.

    CloudFormation updates a resource back only if its id did not change. The build of its old properties may
    be long forgotten, so what it published is read from its results, or else from the manifest.
    """
    wanted = event["ResourceProperties"]
    if event["ResourceType"] == "Custom::TritonBuild":
        _stop(event["PhysicalResourceId"])
        put_answer(event, data={"Run": event["RequestId"]})
    elif event["ResourceType"] == "Custom::TritonArtifacts":
        made = {model: each for model, each in _results(wanted).items() if each["status"] in _MADE}
        put_answer(event, data=_attributes(event, _artifacts(wanted, made, _FORGOTTEN, log="")))
    else:
        put_answer(event)


def _attributes(event: Mapping[str, Any], artifacts: Mapping[str, str]) -> dict[str, str]:
    """The artifacts that are asked for, as attributes, which "resnet50:torchscript" cannot name."""
    named = artifacts if event["ResourceType"] == "Custom::TritonArtifacts" else {}
    return {model.replace(":", "."): name for model, name in named.items()}


def _start_or_stop(
    event: dict[str, Any], *, clock: Callable[[], float], sleep: Callable[[float], None]
) -> None:
    """Start the build of a new or changed resource; end that of one that is gone, if it still runs.

    Another build is another resource, so that CloudFormation deletes the one before, and what a deployment
    that was undone has started does not go on.
    """
    if event["RequestType"] == "Delete":
        _stop(event["PhysicalResourceId"])
        put_answer(event)
        return
    _refuse_no_quota(event["ResourceProperties"], sleep)
    begun = clock()
    while True:
        try:
            started = _start(event["ResourceProperties"], event["RequestId"])
            break
        except ClientError as error:
            if error.response["Error"]["Code"] not in _REFUSED or clock() - begun >= REFUSED_S:
                raise _FailedError(_not_started(error)) from error
            logger.warning("AWS refused the start: %s", error)
            sleep(POLL_S)
    put_answer(event, physical_id=started, data={"Run": event["RequestId"]})


def _start(wanted: Mapping[str, Any], run: str) -> str:
    """Start a build, or a run of builds; asked again with the same name, there is still one of it."""
    if "StateMachine" in wanted:
        states = boto3.client("stepfunctions")
        started = states.start_execution(stateMachineArn=wanted["StateMachine"], name=run)
        return str(started["executionArn"])
    results = f"{wanted['Runs']}{run}/results/0.json"
    build = boto3.client("codebuild").start_build(
        projectName=wanted["Project"],
        idempotencyToken=run,
        environmentVariablesOverride=[{"name": "FLEET_RESULTS", "value": results, "type": "PLAINTEXT"}],
    )
    return str(build["build"]["id"])


def _refuse_no_quota(wanted: Mapping[str, Any], sleep: Callable[[float], None]) -> None:
    """Fail where the account may run no build at all: its models would be missed after the deployment alone.

    A quota that cannot be read keeps nothing from starting.

    Raises:
        _FailedError: A quota is 0.
    """
    asked = [("codebuild", code) for code in wanted.get("QuotaCodes", ())]
    asked += [("sagemaker", name) for name in wanted.get("QuotaNames", ())]
    reads = QUOTA_READS
    while asked:
        service, quota = asked[0]
        try:
            value = _quota(service, quota)
        except (BotoCoreError, ClientError) as error:
            logger.warning("The quota %s was not read: %s", quota, error)
            reads -= 1
            if reads > 0 and isinstance(error, ClientError) and error.response["Error"]["Code"] in _REFUSED:
                sleep(POLL_S)
                continue
            value = None
        if value is not None and value < 1:
            raise _FailedError(
                f"The quota {quota} of {service} is {value:g}: no build would start. `fleet check-quotas` "
                "says how to raise it."
            )
        del asked[0]


def _quota(service: str, quota: str) -> float | None:
    """The account's value of a quota, or AWS's default where it never got one; None if there is no such one.

    Args:
        service: The service's code in Service Quotas.
        quota: Its code of CodeBuild, its name of SageMaker: codes of SageMaker's are in no document.
    """
    client = boto3.client("service-quotas")
    code = _code(client, service, quota) if service == "sagemaker" else quota
    if code is None:
        logger.warning("%s has no quota %s", service, quota)
        return None
    asked = {"ServiceCode": service, "QuotaCode": code}
    try:
        return float(client.get_service_quota(**asked)["Quota"]["Value"])
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchResourceException":
            raise
        return float(client.get_aws_default_service_quota(**asked)["Quota"]["Value"])


def _code(client: Any, service: str, name: str) -> str | None:
    """The code of the quota with this name. SageMaker has thousands, so it is left off when it is found."""
    pages = client.get_paginator("list_aws_default_service_quotas").paginate(
        ServiceCode=service, PaginationConfig={"PageSize": 100}
    )
    found = (each["QuotaCode"] for page in pages for each in page["Quotas"] if each["QuotaName"] == name)
    return next(found, None)


def _not_started(error: ClientError) -> str:
    advice = ""
    if error.response["Error"]["Code"] == "AccountLimitExceededException":
        advice = " The quota of builds on this machine is 0 in a new account: see `fleet check-quotas`."
    return f"The build of the models could not be started: {error}.{advice}"


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
    """Return the status of a build or a run, and the address of its log.

    Step Functions forgets a run after 90 days, CodeBuild a build after a year.
    """
    if started.startswith("arn:"):
        try:
            run = boto3.client("stepfunctions").describe_execution(executionArn=started)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ExecutionDoesNotExist":
                raise
            return _FORGOTTEN, started
        return run["status"], run.get("cause") or started
    builds = boto3.client("codebuild").batch_get_builds(ids=[started])["builds"]
    if not builds:
        return _FORGOTTEN, started
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
            wanted = _wanted(event)
            status, log = _status(wanted["Build"])
            results = _results(wanted)  # read after the status: the last of them is there when it has ended
            answered = clock()
        except (BotoCoreError, ClientError) as error:
            if clock() - answered >= REFUSED_S:
                raise
            logger.warning("AWS did not answer: %s", error)
        else:
            artifacts = _artifacts(wanted, results, status, log)
            missing = [model for model in wanted["Models"] if model not in artifacts]
            if not missing:
                return artifacts
        if clock() >= deadline:
            raise _FailedError(_late(wanted, missing))
        check_time(context)
        logger.info("Waiting for %s", ", ".join(missing))
        sleep(min(POLL_S, max(0.0, deadline - clock())))


def _wanted(event: dict[str, Any]) -> Mapping[str, Any]:
    """Return what the deployment waits for. The models that a target lacks are looked up once."""
    wanted: dict[str, Any] = event["ResourceProperties"]
    if event["ResourceType"] != "Custom::TritonTarget":
        return wanted
    if "Lacking" not in event:
        event["Lacking"] = _lacking(wanted)
    return {**wanted, "Models": event["Lacking"], "Lacking": "yes"}


def _results(wanted: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the result of each model that a build has finished."""
    s3 = boto3.client("s3")
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=wanted["Bucket"], Prefix=f"{wanted['RunsPrefix']}{wanted['Run']}/results/"
    )
    found = {}
    for each in (each for page in pages for each in page.get("Contents", [])):
        document = json.loads(s3.get_object(Bucket=wanted["Bucket"], Key=each["Key"])["Body"].read())
        for result in document["models"]:
            # While its build goes on, a model that it has not come to is in the document as well.
            if document["finished"] or result["step"] != "wait":
                found[result["model"]] = result
    return found


def _artifacts(
    wanted: Mapping[str, Any], results: Mapping[str, dict[str, Any]], status: str, log: str
) -> dict[str, str]:
    """The artifacts of the models that are published.

    Raises:
        _FailedError: A model was not built, or all has ended without a word about it.
    """
    artifacts = {}
    families = [model for model in wanted["Models"] if model in wanted.get("Families", ())]
    for model in wanted["Models"]:
        result = results.get(model)
        if model in families:
            continue
        if result and result["status"] in _MADE:
            artifacts[model] = result["artifact"]
        elif result and status not in _RUNNING:
            # While it runs, a build whose machine failed is started once more, and writes another result.
            raise _FailedError(_failed(model, result))
        elif result and not wanted["Build"].startswith("arn:"):
            raise _FailedError(_failed(model, result))
        elif not result and status in _ENDED:
            artifacts[model] = _current(wanted, model)
        elif not result and status not in _RUNNING:
            raise _FailedError(f"The build that makes {model} ended as {status} without it. Read: {log}")
    if status not in _RUNNING:
        artifacts |= dict.fromkeys(_built(families, results, status, log), "")
    return artifacts


def _built(
    families: list[str], results: Mapping[str, dict[str, Any]], status: str, log: str
) -> Iterator[str]:
    """The families of a build that has ended: their members are built, or unchanged.

    Raises:
        _FailedError: A member was not built.
    """
    for family in families:
        for name, result in results.items():
            if name.startswith(f"{family}:") and result["status"] not in _MADE:
                raise _FailedError(_failed(name, result))
        if status not in _ENDED:
            raise _FailedError(f"The build that makes members of {family} ended as {status}. Read: {log}")
        yield family


def _failed(model: str, result: Mapping[str, Any]) -> str:
    problem = (result["problems"] or [{"what": "no reason was given", "fix": ""}])[0]
    log = f" Log: {result['log']}." if result.get("log") else ""
    return f"{model} failed in the step {result['step']}: {problem['what']}. {problem['fix']}.{log}"


def _late(wanted: Mapping[str, Any], missing: list[str]) -> str:
    minutes = float(wanted["WaitSeconds"]) / 60
    advice = "Wait until it ends, then deploy again: the artifacts that it has published stay."
    if "Lacking" in wanted:
        advice = "Deploy again with more parallel_builds: published artifacts stay."
    return f"{', '.join(missing)} not built within {minutes:.0f} min, by {wanted['Build']}. {advice}"


def _lacking(wanted: Mapping[str, Any]) -> list[str]:
    """The models of a build that are published for other targets: what its own has may be missing, or old.

    A form such as "resnet50:torchscript" is published under another name, which the check of the alias finds.
    """
    listed = boto3.client("s3").list_objects_v2(
        Bucket=wanted["Bucket"], Prefix=wanted["ManifestKey"], MaxKeys=1
    )
    if not listed.get("Contents"):
        return []
    elsewhere = [name for name, model in _manifest(wanted).items() if _is_elsewhere(model, wanted["Target"])]
    families = wanted.get("Families", ())
    return [
        model
        for model in wanted["Models"]
        if model in elsewhere
        or (model in families and any(name.startswith(f"{model}_") for name in elsewhere))
    ]


def _is_elsewhere(model: Mapping[str, Any], target: str) -> bool:
    """Return whether a name has an artifact on other targets, which version 1 did not have."""
    current = model["current"]
    return not isinstance(current, str) and any(not covers(each, target) for each in current)


def _manifest(wanted: Mapping[str, Any]) -> dict[str, Any]:
    answer = boto3.client("s3").get_object(Bucket=wanted["Bucket"], Key=wanted["ManifestKey"])
    return models_of(answer["Body"].read())


def _current(wanted: Mapping[str, Any], model: str) -> str:
    """The artifact of a model that was not built because nothing about it has changed."""
    models = _manifest(wanted)
    artifact = moved_for(models[model], wanted["Target"]) if model in models else None
    if artifact is None:
        raise _FailedError(
            f"{model} is not in the repository for {wanted['Target']}, and the build has no result for it. "
            "If it was rolled back, correct its sources, or build it by name."
        )
    return artifact
