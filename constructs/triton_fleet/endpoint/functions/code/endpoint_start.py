"""Makes what an endpoint needs before it starts: its log group, and an object below the prefix of its models.

Runs in AWS Lambda, which gets this file alone: it imports nothing but Python, boto3 and `answer`.
CloudFormation invokes it for a resource Custom::TritonEndpointStart.

The log group belongs to no stack: the reason why an endpoint did not start is in it, and a rollback would
delete it. It may also be there already, because SageMaker writes its last lines after an endpoint is deleted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from triton_fleet.endpoint.functions.code.answer import put_answer

POLL_S = 5
# How long AWS may refuse: a new permission takes effect within seconds, a missing one never does.
REFUSED_S = 120
# Between the resource's name and the version of the object that it has made, in its physical id.
MARK = "-made-"

logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)


def handler(event: dict[str, Any], context: Any, *, sleep: Callable[[float], None] = time.sleep) -> None:  # noqa: ARG001
    """Answer the request."""
    wanted = event["ResourceProperties"]
    made = event.get("PhysicalResourceId") or event["LogicalResourceId"]
    try:
        if event["RequestType"] == "Delete":
            _remove_manifest(wanted, made)
        else:
            _patiently(lambda: _bound_log_group(wanted["LogGroup"], int(wanted["RetentionDays"])), sleep)
            if "KmsKeyId" in wanted:
                _patiently(lambda: _encrypted(wanted["LogGroup"], wanted["KmsKeyId"]), sleep)
            if "Manifest" in wanted:
                _refuse_another_region(wanted["Bucket"])
                version = _patiently(lambda: _put_manifest(wanted), sleep)
                made = f"{event['LogicalResourceId']}{MARK}{version}" if version else made
    except Exception as error:  # without an answer, CloudFormation waits until the time-out
        logger.exception("It failed")
        failure = f"It failed with {type(error).__name__}: {error}"
    else:
        failure = ""
    data = {name: wanted[name] for name in ("LogGroup", "LogGroupArn")}
    put_answer(event, physical_id=made, data=data, failure=failure)


def _patiently(action: Callable[[], str], sleep: Callable[[float], None]) -> str:
    """Do it, again while AWS refuses: the permission for it may be seconds old."""
    for attempt in range(REFUSED_S // POLL_S):
        try:
            return action()
        except (BotoCoreError, ClientError) as error:
            logger.warning("Attempt %d: %s", attempt, error)
        sleep(POLL_S)
    return action()


def _bound_log_group(name: str, days: int) -> str:
    """Have CloudWatch delete what is older, or nothing for 0 days; the group may be there already."""
    logs = boto3.client("logs")
    try:
        logs.create_log_group(logGroupName=name)
    except logs.exceptions.ResourceAlreadyExistsException:
        logger.info("%s is there already", name)
    if days:
        logs.put_retention_policy(logGroupName=name, retentionInDays=days)
    else:
        logs.delete_retention_policy(logGroupName=name)
    return name


def _encrypted(name: str, key: str) -> str:
    """Have CloudWatch encrypt what comes into the group from now on."""
    boto3.client("logs").associate_kms_key(logGroupName=name, kmsKeyId=key)
    return name


def _refuse_another_region(bucket: str) -> None:
    """Raise if a bucket is in another region than this function: SageMaker reads models of its own only.

    The answer names the region whether or not the bucket may be read.
    """
    s3 = boto3.client("s3")
    try:
        answer: Mapping[str, Any] = s3.head_bucket(Bucket=bucket)
    except ClientError as error:
        answer = error.response
    region = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("x-amz-bucket-region")
    if region not in (None, s3.meta.region_name):
        here = s3.meta.region_name
        message = f"The bucket {bucket} is in {region}: SageMaker reads models in {here}. Use one in {here}."
        raise ValueError(message)


def _put_manifest(wanted: Mapping[str, Any]) -> str:
    """Write an empty manifest unless there is one; the new object's version, or nothing.

    SageMaker may refuse a model whose prefix has no object.
    """
    try:
        put = boto3.client("s3").put_object(
            Bucket=wanted["Bucket"],
            Key=wanted["ManifestKey"],
            Body=wanted["Manifest"].encode(),
            ContentType="application/json",
            IfNoneMatch="*",
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "PreconditionFailed":
            raise
        return ""
    return str(put.get("VersionId", ""))


def _remove_manifest(wanted: Mapping[str, Any], made: str) -> None:
    """Remove the version that was made here, so that the bucket of a failed deployment is empty again."""
    version = made.partition(MARK)[2]
    if not version:
        return
    try:
        boto3.client("s3").delete_object(
            Bucket=wanted["Bucket"], Key=wanted["ManifestKey"], VersionId=version
        )
    except (BotoCoreError, ClientError) as error:  # what cannot be removed keeps no stack from going
        logger.warning("Version %s stays: %s", version, error)
