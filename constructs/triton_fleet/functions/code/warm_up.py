"""Invokes models while a new fleet of an endpoint is watched, so that it has them loaded when traffic comes.

Runs in AWS Lambda, which gets this file alone: it imports nothing but Python and boto3. An EventBridge rule
invokes it with the requests to send. It logs what goes wrong and never fails.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

# Of the manifest that `fleet publish` writes.
MANIFEST_VERSION = 1
# Requests under way: a model that is being loaded holds its request for up to a minute.
AT_ONCE = 8
# SageMaker answers within 60 seconds. The next round is the second attempt.
INVOCATION = Config(read_timeout=70, retries={"total_max_attempts": 1}, max_pool_connections=AT_ONCE)
# What is left of an invocation when it ends, besides the time that a round takes.
SPARE_S = 10

logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)


def handler(
    event: Mapping[str, Any],
    context: Any,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Send every request again and again, until the new fleet is no longer watched or the time is up."""
    endpoint, every = os.environ["ENDPOINT_NAME"], float(os.environ["EVERY_SECONDS"])
    s3, sagemaker = boto3.client("s3"), boto3.client("sagemaker")
    runtime = boto3.client("sagemaker-runtime", config=INVOCATION)
    while True:
        began = clock()
        targets = _targets(s3)
        if targets is not None:
            _round(event["requests"], send=partial(_send, runtime, endpoint, targets))
        if not _baking(sagemaker, endpoint):
            return
        took = clock() - began
        pause = max(every - took, 0)
        if context.get_remaining_time_in_millis() / 1000 < pause + took + SPARE_S:
            logger.info("The time is up, and the new fleet of %s is still watched", endpoint)
            return
        sleep(pause)


def target_models(manifest: str | bytes) -> dict[str, str]:
    """The artifact that each model's name stands for.

    Raises:
        ValueError: It is not a manifest, or one of another version.
    """
    try:
        document = json.loads(manifest)
        version, models = document["version"], document["models"]
        targets = {str(name): str(model["current"]) for name, model in models.items()}
    except (KeyError, TypeError, AttributeError) as error:
        msg = f"it is no manifest: {type(error).__name__} {error}"
        raise ValueError(msg) from error
    if version != MANIFEST_VERSION:
        msg = f"it has version {version!r} instead of {MANIFEST_VERSION}"
        raise ValueError(msg)
    return targets


def _targets(s3: Any) -> dict[str, str] | None:
    """What the names of models stand for now; None if that cannot be read."""
    bucket, key = os.environ["MANIFEST_BUCKET"], os.environ["MANIFEST_KEY"]
    try:
        return target_models(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    except (BotoCoreError, ClientError, ValueError) as error:
        logger.error("s3://%s/%s cannot be read: %s", bucket, key, error)
        return None


def _round(requests: list[dict[str, str]], *, send: Callable[[dict[str, str]], None]) -> None:
    """Send every request once."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(send, requests))


def _send(runtime: Any, endpoint: str, targets: Mapping[str, str], request: dict[str, str]) -> None:
    """Send one request; whatever happens is a line in the log."""
    model, began = request["model"], time.monotonic()
    target = targets.get(model)
    if target is None:
        logger.error("%s: none of the %d models of the repository has that name", model, len(targets))
        return
    try:
        answer = runtime.invoke_endpoint(
            EndpointName=endpoint,
            TargetModel=target,
            ContentType=request["content_type"],
            Body=request["body"].encode(),
        )
        answer["Body"].read()
        logger.info("%s: answered by %s in %.1f s", model, target, time.monotonic() - began)
    except Exception as error:  # noqa: BLE001 -- the other models go on, whatever it is
        logger.warning("%s: %s did not answer: %s", model, target, error)


def _baking(sagemaker: Any, endpoint: str) -> bool:
    """Whether a new fleet is being watched."""
    try:
        described = sagemaker.describe_endpoint(EndpointName=endpoint)
    except (BotoCoreError, ClientError) as error:
        logger.error("%s cannot be looked at: %s", endpoint, error)
        return False
    pending = described.get("PendingDeploymentSummary", {}).get("ProductionVariants", [])
    statuses = [each["Status"] for variant in pending for each in variant.get("VariantStatus", [])]
    logger.info("%s is %s, its new fleet %s", endpoint, described["EndpointStatus"], statuses or "not there")
    return described["EndpointStatus"] == "Updating" and "Baking" in statuses
