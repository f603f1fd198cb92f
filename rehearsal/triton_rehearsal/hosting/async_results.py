"""The results of asynchronous requests: objects in S3, and notifications.

The fields of a notification are those of messages that users recorded from 2022 to 2025, such as in the
tile_request_table.py of OversightML's model runner. Read on 2026-11-23.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from embedded_aws import current_clock
from triton_rehearsal.hosting.async_requests import LONGEST_BODY, AsyncSettings, Job
from triton_rehearsal.hosting.model_data import split
from triton_rehearsal.triton.contract import Answer

_log = logging.getLogger(__name__)

_ELSEWHERE = "Check S3 path location(if configured) or Cloudwatch for additional details."


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of a request.

    Attributes:
        status: The InvocationStatus: Completed, Failed or Expired.
        answer: The container's answer; None without one.
        reason: The reason of a failure.
    """

    status: str
    answer: Answer | None = None
    reason: str = ""

    @property
    def completed(self) -> bool:
        """True if the container answered with 200."""
        return self.status == "Completed"


def read(job: Job, s3: Any) -> bytes:
    """Return a request's body.

    Raises:
        botocore.exceptions.ClientError: There is no such object.
    """
    if job.input is None:
        return job.body
    bucket, key = split(job.input)
    content: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    return content


def store(job: Job, outcome: Outcome, s3: Any) -> None:
    """Write the answer, or the failure if it has a place: what the container answered, or the reason."""
    address = job.output if outcome.completed else job.failure
    if address is None:
        return
    bucket, key = split(address)
    answer = outcome.answer
    if answer is None or not answer.body:
        s3.put_object(Bucket=bucket, Key=key, Body=outcome.reason.encode(), ContentType="text/plain")
        return
    s3.put_object(Bucket=bucket, Key=key, Body=answer.body, ContentType=_content_type(answer))


class Notifier:
    """Sends the notifications of an endpoint.

    Args:
        endpoint: The endpoint's name.
        region: Its region.
        sns: Returns a boto3 SNS client.
    """

    def __init__(self, *, endpoint: str, region: str, sns: Callable[[], Any]) -> None:
        self._endpoint, self._region, self._sns = endpoint, region, sns

    def send(self, job: Job, outcome: Outcome, settings: AsyncSettings) -> None:
        """Notify the topic for an outcome, if there is one."""
        topic = settings.success_topic if outcome.completed else settings.error_topic
        if topic is None:
            return
        kind = "SUCCESS_NOTIFICATION_TOPIC" if outcome.completed else "ERROR_NOTIFICATION_TOPIC"
        message = self._message(job, outcome, included=kind in settings.included)
        try:
            self._sns().publish(TopicArn=topic, Message=json.dumps(message))
        except Exception:  # noqa: BLE001  the result counts even if no one hears of it
            _log.warning("the notification of the request %s was lost", job.id, exc_info=True)

    def _message(self, job: Job, outcome: Outcome, *, included: bool) -> dict[str, Any]:
        request = {
            "accept": job.headers.get("accept"),
            "contentType": job.headers.get("content-type"),
            "endpointName": self._endpoint,
            "inputLocation": job.input,
        }
        response = {
            "contentType": _content_type(outcome.answer) if outcome.answer else None,
            "outputLocation": job.output if outcome.completed else None,
            "failureLocation": None if outcome.completed else job.failure,
        }
        return _present(
            {
                "awsRegion": self._region,
                "eventTime": _time(current_clock().time()),
                "receivedTime": _time(job.received),
                "invocationStatus": outcome.status,
                "failureReason": outcome.reason or None,
                "requestParameters": _present(request),
                "responseParameters": _present(response) or None,
                "responseBody": _body(outcome.answer) if included and outcome.answer else None,
                "inferenceId": job.id,
                "eventVersion": "1.0",
                "eventSource": "aws:sagemaker",
                "eventName": "InferenceResult",
            }
        )


def _body(answer: Answer) -> dict[str, str]:
    """Return an answer for a notification; without its content if that is too long."""
    content = base64.b64encode(answer.body).decode() if len(answer.body) <= LONGEST_BODY else ""
    return {"content": content, "message": _ELSEWHERE, "encoding": "BASE64"}


def _content_type(answer: Answer) -> str:
    return answer.headers.get("content-type", "application/octet-stream")


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=timezone.utc).isoformat(timespec="milliseconds")[:-6] + "Z"
