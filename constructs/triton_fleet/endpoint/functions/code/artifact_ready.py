"""Waits until artifacts are in a model repository, then answers CloudFormation.

Runs in AWS Lambda, which gets this file alone: it imports nothing but Python, boto3, `answer` and
`successor`. CloudFormation invokes it for a resource Custom::TritonArtifact, and goes on when it has the
answer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from triton_fleet.endpoint.functions.code.answer import put_answer
from triton_fleet.endpoint.functions.code.successor import OutOfTimeError, check_time, invoke_again

POLL_S = 10
# How long S3 may refuse to answer: a new permission takes effect within seconds, a missing one never does.
REFUSED_S = 120

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
        put_answer(event)
        return
    try:
        failure = _wait(event, context, clock=clock, sleep=sleep)
    except OutOfTimeError:
        invoke_again(event, context)
        return
    except Exception as error:  # without an answer, CloudFormation waits until the time-out
        logger.exception("Waiting failed")
        failure = f"Waiting for artifacts failed with {type(error).__name__}: {error}"
    put_answer(event, failure=failure)


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
        check_time(context)
        logger.info("Waiting for %s", ", ".join(missing))
        sleep(min(POLL_S, deadline - clock()))


def _stored(s3: Any, bucket: str, key: str) -> bool:
    """Return whether an object of this key exists.

    Asked by listing, which needs no permission to read models, and separates what is not there from what must
    not be read. Keys are listed in order, so the key itself comes first of all that begin with it.
    """
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
    return any(each["Key"] == key for each in listed.get("Contents", []))


def _reason(wanted: dict[str, Any], missing: list[str]) -> str:
    """Return the reason, with the fix in front, because a long list of names is cut."""
    repository, minutes = f"s3://{wanted['Bucket']}/{wanted['Prefix']}", float(wanted["WaitSeconds"]) / 60
    return (
        f"{len(missing)} of {len(wanted['Artifacts'])} artifacts were not in {repository} within "
        f"{minutes:.0f} min. Start the build that makes them or run `fleet publish`, then deploy again. "
        f"Missing: {', '.join(missing)}"
    )
