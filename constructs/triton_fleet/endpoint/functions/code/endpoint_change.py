"""Waits until SageMaker accepts a change of an endpoint, and checks what has become of the change.

Runs in AWS Lambda, which gets this file alone: it imports nothing but Python, boto3, `answer` and
`successor`. CloudFormation invokes it for a resource Custom::TritonEndpointIdle, before it creates or updates
the endpoint. SageMaker refuses to change an endpoint that is being changed, such as by auto scaling.

After the endpoint, CloudFormation invokes it for a resource Custom::TritonEndpointSettled. This resource is
complete once the endpoint serves with its configuration. A new endpoint of a fleet has as many instances as
the endpoint that the alias names by then. The resource is deleted before its endpoint: its deletion waits
until that endpoint can be deleted.
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
from triton_fleet.endpoint.functions.code.successor import OutOfTimeError, check_time, invoke_again

POLL_S = 5
# CloudFormation waits for an hour. The rest is for the answer.
LONGEST_WAIT_S = 3500
# How long AWS may refuse to answer: a new permission takes effect within seconds, a missing one never does.
REFUSED_S = 120

_IN_PROGRESS = ("Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting")

logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)


class _FailedError(Exception):
    """The endpoint is not as it should be; the text says why, and what to do."""


def handler(
    event: dict[str, Any],
    context: Any,
    *,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Answer the request, or hand it to another invocation when the time of this one is up."""
    settled, kind = event["ResourceType"] == "Custom::TritonEndpointSettled", event["RequestType"]
    try:
        if settled or kind != "Delete":
            found = _wait(event, context, clock=clock, sleep=sleep)
            if settled and kind != "Delete":
                _refuse_another_configuration(event["ResourceProperties"], found)
            if settled and kind == "Create":
                _take_over(event, context, found, clock=clock, sleep=sleep)
    except OutOfTimeError:
        invoke_again(event, context)
        return
    except Exception as error:  # without an answer, CloudFormation waits until the time-out
        logger.exception("It failed")
        failure = str(error) if isinstance(error, _FailedError) else f"{type(error).__name__}: {error}"
    else:
        failure = ""
    # A deletion that fails keeps a stack from going. DeleteEndpoint says what is wrong.
    put_answer(event, failure="" if kind == "Delete" else failure)


def _wait(
    event: dict[str, Any], context: Any, *, clock: Callable[[], float], sleep: Callable[[float], None]
) -> Mapping[str, Any]:
    """Wait until nothing changes the endpoint; gives its description, empty if there is no endpoint.

    Raises:
        _FailedError: It takes too long.
        OutOfTimeError: The time of this invocation is up.
    """
    name = event["ResourceProperties"]["Endpoint"]
    # Kept in the event, so that the invocations after this one end at the same time.
    deadline = event.setdefault("Deadline", clock() + LONGEST_WAIT_S)
    answered, status = clock(), ""
    while True:
        try:
            found = _described(name)
            answered, status = clock(), found.get("EndpointStatus", "")
            if status not in _IN_PROGRESS:
                return found
        except (BotoCoreError, ClientError) as error:
            if clock() - answered >= REFUSED_S:
                raise
            logger.warning("SageMaker did not answer: %s", error)
        if clock() >= deadline:
            minutes = LONGEST_WAIT_S // 60
            message = f"{name} is still {status} after {minutes} minutes. Deploy again once it is InService."
            raise _FailedError(message)
        check_time(context)
        logger.info("%s is %s", name, status)
        sleep(POLL_S)


def _described(name: str) -> Mapping[str, Any]:
    """The description of an endpoint; empty if there is none."""
    try:
        found: Mapping[str, Any] = boto3.client("sagemaker").describe_endpoint(EndpointName=name)
    except ClientError as error:
        if "Could not find" in str(error):
            return {}
        raise
    return found


def _refuse_another_configuration(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise if SageMaker has undone the change. The endpoint is in service then, as it was before.

    Raises:
        _FailedError: It has.
    """
    status, config = found.get("EndpointStatus", "gone"), found.get("EndpointConfigName")
    if (status, config) == ("InService", wanted["Config"]):
        return
    reason = found.get("FailureReason", "SageMaker gives no reason.")
    message = f"{wanted['Endpoint']} is {status} with {config}, not with {wanted['Config']}: {reason}"
    raise _FailedError(message)


def _take_over(
    event: dict[str, Any],
    context: Any,
    found: Mapping[str, Any],
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Give a new endpoint the instances of the one that serves the fleet, up to its own maximum.

    Raises:
        _FailedError: It does not get them.
        OutOfTimeError: The time of this invocation is up.
    """
    wanted = event["ResourceProperties"]
    # Kept in the event: what was asked for is not asked for again.
    if "Counts" not in event:
        event["Counts"] = _more(wanted, found)
        if event["Counts"]:
            logger.info("%s gets %s", wanted["Endpoint"], event["Counts"])
            _scale(wanted["Endpoint"], event["Counts"])
    if not event["Counts"]:
        return
    found = _wait(event, context, clock=clock, sleep=sleep)
    serving = {each["VariantName"]: each["CurrentInstanceCount"] for each in found["ProductionVariants"]}
    if any(serving[variant] < count for variant, count in event["Counts"].items()):
        reason = found.get("FailureReason", "SageMaker gives no reason.")
        raise _FailedError(_too_small(wanted["Endpoint"], event["Counts"], f"it has {serving}: {reason}"))


def _more(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, int]:
    """The instances of each variant that needs more than it has."""
    serving = _serving(wanted["Alias"]) if "Alias" in wanted else None
    if serving in (None, wanted["Endpoint"]):
        return {}
    before = _described(str(serving)).get("ProductionVariants", [])
    counts = {each["VariantName"]: int(each.get("DesiredInstanceCount", 0)) for each in before}
    own = {each["VariantName"]: int(each["DesiredInstanceCount"]) for each in found["ProductionVariants"]}
    wished = {
        variant: min(counts.get(variant, 0), int(most)) for variant, most in wanted["MaxCapacity"].items()
    }
    return {variant: count for variant, count in wished.items() if count > own[variant]}


def _serving(alias: str) -> str | None:
    """The endpoint that the alias names; None if there is no alias yet."""
    try:
        value = boto3.client("ssm").get_parameter(Name=alias)["Parameter"]["Value"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ParameterNotFound":
            return None
        raise
    return str(json.loads(value)["endpoint"] if value.startswith("{") else value)


def _scale(endpoint: str, counts: Mapping[str, int]) -> None:
    try:
        boto3.client("sagemaker").update_endpoint_weights_and_capacities(
            EndpointName=endpoint,
            DesiredWeightsAndCapacities=[
                {"VariantName": variant, "DesiredInstanceCount": count} for variant, count in counts.items()
            ],
        )
    except ClientError as error:
        raise _FailedError(_too_small(endpoint, counts, str(error))) from error


def _too_small(endpoint: str, counts: Mapping[str, int], why: str) -> str:
    return (
        f"{endpoint} does not get the instances that the fleet has now, {dict(counts)}: {why} "
        "`fleet check-quotas` shows the quota, which has to hold both endpoints. Or deploy at a quiet hour."
    )
