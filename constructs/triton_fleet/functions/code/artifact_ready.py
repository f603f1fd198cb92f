"""Waits until artifacts are in a model repository, then tells CloudFormation.

Runs in AWS Lambda, which gets this file alone: it imports nothing but Python and boto3. CloudFormation
invokes it for a resource Custom::TritonArtifact, and goes on when the answer is at the ResponseURL.

Source, read on 2026-11-21:
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref-responses.html
"""

from __future__ import annotations

import json
import logging
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

POLL_S = 10
# What is left of an invocation when it starts the next one.
SPARE_S = 45
# How long S3 may refuse to answer: a new permission takes effect within seconds, a missing one never does.
REFUSED_S = 120
# In bytes; CloudFormation takes 4096 for the whole answer.
LONGEST_REASON = 2500

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
    if event["RequestType"] == "Delete":  # nothing was made
        _answer(event)
        return
    try:
        failure = _wait(event, context, clock=clock, sleep=sleep)
    except _OutOfTimeError:
        _invoke_again(event, context)
        return
    except Exception as error:  # without an answer, CloudFormation waits for the whole time-out
        logger.exception("Waiting failed")
        failure = f"Waiting for artifacts failed with {type(error).__name__}: {error}"
    _answer(event, failure=failure)


class _OutOfTimeError(Exception):
    """An invocation has to end before its request can be answered."""


def _wait(
    event: dict[str, Any], context: Any, *, clock: Callable[[], float], sleep: Callable[[float], None]
) -> str:
    """Wait for every artifact; gives the reason if one is still missing at the end, else nothing."""
    wanted = event["ResourceProperties"]
    # Kept in the event, so that the invocations after this one end at the same time.
    deadline = event.setdefault("Deadline", clock() + float(wanted["WaitSeconds"]))
    s3, missing, answered = boto3.client("s3"), list(wanted["Artifacts"]), clock()
    while True:
        try:
            missing = [name for name in missing if not _stored(s3, wanted["Bucket"], wanted["Prefix"] + name)]
            answered = clock()
        except (BotoCoreError, ClientError) as error:
            if clock() - answered >= REFUSED_S:
                raise
            logger.warning("S3 did not answer: %s", error)
        if not missing:
            return ""
        if clock() >= deadline:
            return _reason(wanted, missing)
        if context.get_remaining_time_in_millis() < SPARE_S * 1000:
            raise _OutOfTimeError
        logger.info("Waiting for %s", ", ".join(missing))
        sleep(min(POLL_S, deadline - clock()))


def _stored(s3: Any, bucket: str, key: str) -> bool:
    """Whether there is an object of this key.

    Asked by listing, which needs no permission to read models, and tells what is not there from what must
    not be read. Keys are listed in order, so the key itself comes first of all that begin with it.
    """
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
    return any(each["Key"] == key for each in listed.get("Contents", []))


def _reason(wanted: dict[str, Any], missing: list[str]) -> str:
    """What is missing and what to do, first of all, as a long list of names is cut."""
    repository, minutes = f"s3://{wanted['Bucket']}/{wanted['Prefix']}", float(wanted["WaitSeconds"]) / 60
    return (
        f"{len(missing)} of {len(wanted['Artifacts'])} artifacts were not in {repository} within "
        f"{minutes:.0f} min. Start the build that makes them or run `fleet publish`, then deploy again. "
        f"Missing: {', '.join(missing)}"
    )


def _invoke_again(event: dict[str, Any], context: Any) -> None:
    boto3.client("lambda").invoke(
        FunctionName=context.invoked_function_arn,
        InvocationType="Event",
        Payload=json.dumps(event).encode(),
    )


def _answer(event: dict[str, Any], *, failure: str = "") -> None:
    """Put the answer where CloudFormation looks for it. After an error here Lambda invokes this once more."""
    answer = {
        "Status": "FAILED" if failure else "SUCCESS",
        "Reason": failure.encode()[:LONGEST_REASON].decode(errors="ignore"),
        # The same in every update: another one would make CloudFormation delete the resource before.
        "PhysicalResourceId": event.get("PhysicalResourceId") or event["LogicalResourceId"],
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
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
