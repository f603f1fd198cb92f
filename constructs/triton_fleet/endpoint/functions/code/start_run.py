"""Starts a run of builds for requests in a queue: one for a burst, and one more for what came during a run.

Runs in AWS Lambda, which gets this file alone: it imports nothing but Python and boto3. The queue gives it
one batch at a time. A batch that cannot start a run yet goes back to the queue.
"""

from __future__ import annotations

import logging
import os
from typing import Any

import boto3

logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)


def handler(event: dict[str, Any], _: Any) -> dict[str, Any]:
    """Start a run, unless one runs, or began after everything that these requests stand for."""
    states, machine, records = boto3.client("stepfunctions"), os.environ["STATE_MACHINE"], event["Records"]
    newest = states.list_executions(stateMachineArn=machine, maxResults=1)["executions"]
    # The queue drops requests for so long after the one that it keeps, which stands for them as well.
    dropped_s = float(os.environ["DEDUPLICATED_S"])
    sent = max(int(each["attributes"]["SentTimestamp"]) for each in records) / 1000
    if newest and newest[0]["status"] in ("RUNNING", "PENDING_REDRIVE"):
        logger.info("The run %s goes on: the next one waits for its end", newest[0]["name"])
        return {"batchItemFailures": [{"itemIdentifier": each["messageId"]} for each in records]}
    if newest and newest[0]["startDate"].timestamp() >= sent + dropped_s:
        logger.info("The run %s has found all that this asks for", newest[0]["name"])
    else:
        # Asked again with the same name, there is still one run.
        started = states.start_execution(stateMachineArn=machine, name=records[-1]["messageId"])
        logger.info("Started %s", started["executionArn"])
    return {"batchItemFailures": []}
