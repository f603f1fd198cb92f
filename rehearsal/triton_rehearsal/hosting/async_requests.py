"""The requests of an asynchronous endpoint: their limits, and the places of their answers.

Read on 2026-11-23: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpointAsync.html
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import botocore.session

from embedded_aws import current_clock
from triton_rehearsal.hosting.runtime_api import ApiError, Reply, validation_error

LONGEST_BODY = 128_000
"""Bytes of a request that comes without an S3 address, and of an answer in a notification."""

_PREFIX = "x-amzn-sagemaker-"
# For the container, whose names for two of them are HTTP's own.
_FORWARDED = {
    f"{_PREFIX}content-type": "content-type",
    f"{_PREFIX}accept": "accept",
    f"{_PREFIX}custom-attributes": f"{_PREFIX}custom-attributes",
    f"{_PREFIX}inference-id": f"{_PREFIX}inference-id",
}
_TIME_TO_LIVE_S, _TIME_LIMIT_S = 21_600, 900  # without a wish of the caller
# AWS documents only that SageMaker chooses a number.
_CONCURRENCY = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncSettings:
    """The AsyncInferenceConfig of an endpoint.

    Attributes:
        output: The S3 address of the folder for answers, with a slash at the end.
        failure: That of the folder for failures; None without one.
        success_topic: The ARN of the SNS topic for answers; None without one.
        error_topic: The ARN of the SNS topic for failures; None without one.
        included: The kinds of topics whose notifications contain the answer.
        concurrency: The number of requests that an instance gets at one time.
    """

    output: str
    failure: str | None
    success_topic: str | None
    error_topic: str | None
    included: frozenset[str]
    concurrency: int

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> AsyncSettings:
        """Return the settings in a described AsyncInferenceConfig."""
        output = config["OutputConfig"]
        topics = output.get("NotificationConfig", {})
        failure = output.get("S3FailurePath")
        chosen = config.get("ClientConfig", {}).get("MaxConcurrentInvocationsPerInstance")
        return cls(
            output=_folder(output["S3OutputPath"]),
            failure=_folder(failure) if failure else None,
            success_topic=topics.get("SuccessTopic"),
            error_topic=topics.get("ErrorTopic"),
            included=frozenset(topics.get("IncludeInferenceResponseIn", ())),
            concurrency=chosen or _CONCURRENCY,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """A request in a queue.

    Attributes:
        id: The InferenceId.
        input: The S3 address of the request; None if it came with the call.
        body: The request that came with the call.
        output: The S3 address for the answer.
        failure: The S3 address for a failure; None without one.
        headers: The headers for the container.
        received: The time by `embedded_aws.current_clock`, in seconds since 1970.
        time_to_live_s: The longest time in the queue, in seconds by that clock.
        time_limit_s: The longest time of the container, in seconds.
    """

    id: str
    input: str | None
    body: bytes
    output: str
    failure: str | None
    headers: Mapping[str, str]
    received: float
    time_to_live_s: float
    time_limit_s: float

    def reply(self) -> Reply:
        """Return the reply to InvokeEndpointAsync."""
        headers = {"Content-Type": "application/json", "X-Amzn-SageMaker-OutputLocation": self.output}
        if self.failure:
            headers["X-Amzn-SageMaker-FailureLocation"] = self.failure
        return Reply(status=202, body=json.dumps({"InferenceId": self.id}).encode(), headers=headers)


def accept(headers: Mapping[str, str], body: bytes, settings: AsyncSettings) -> Job:
    """Return the job of a call of InvokeEndpointAsync.

    Args:
        headers: The call's headers, with lower-case names.
        body: The call's body.
        settings: The endpoint's settings.

    Raises:
        ApiError: The call breaks a limit of the API.
    """
    _check(headers)
    given = headers.get(f"{_PREFIX}inputlocation")
    if bool(given) == bool(body):
        raise validation_error("Provide exactly one of InputLocation and Body.")
    if given and not given.startswith("s3://"):
        raise validation_error(f"The rehearsal reads requests at s3:// addresses only, not {given}.")
    if len(body) > LONGEST_BODY:
        raise validation_error(f"Body has {len(body)} bytes, and {LONGEST_BODY} is the maximum.")
    name = str(uuid.uuid4())
    extension = headers.get(f"{_PREFIX}s3outputpathextension", "").strip("/")
    folder = settings.output + (f"{extension}/" if extension else "")
    return Job(
        id=headers.get(f"{_PREFIX}inference-id") or str(uuid.uuid4()),
        input=given,
        body=body,
        output=folder + headers.get(f"{_PREFIX}filename", f"{name}.out"),
        failure=f"{settings.failure}{name}-error.out" if settings.failure else None,
        headers={sent: headers[name] for name, sent in _FORWARDED.items() if name in headers},
        received=current_clock().time(),
        time_to_live_s=float(headers.get(f"{_PREFIX}requestttlseconds", _TIME_TO_LIVE_S)),
        time_limit_s=float(headers.get(f"{_PREFIX}invocationtimeoutseconds", _TIME_LIMIT_S)),
    )


def not_asynchronous(endpoint: str) -> ApiError:
    """Return the error for InvokeEndpointAsync of an endpoint that answers at once."""
    return validation_error(f"Endpoint {endpoint} is not an asynchronous endpoint: use InvokeEndpoint.")


def asynchronous(endpoint: str) -> ApiError:
    """Return the error for InvokeEndpoint of an asynchronous endpoint."""
    return validation_error(f"Endpoint {endpoint} is an asynchronous endpoint: use InvokeEndpointAsync.")


def _folder(address: str) -> str:
    return address if address.endswith("/") else f"{address}/"


@cache
def _members() -> Mapping[str, tuple[str, Any]]:
    """Return the members of the call that are headers, by the header's name."""
    model = botocore.session.get_session().get_service_model("sagemaker-runtime")
    shape: Any = model.operation_model("InvokeEndpointAsync").input_shape
    return {
        member.serialization["name"].lower(): (name, member)
        for name, member in shape.members.items()
        if member.serialization.get("location") == "header"
    }


def _check(headers: Mapping[str, str]) -> None:
    """Refuse what the API model does not allow."""
    for header, (name, shape) in _members().items():
        if header in headers and (wanted := _broken(headers[header], shape)):
            message = (
                f"1 validation error detected: Value '{headers[header]}' at '{name[0].lower()}{name[1:]}' "
                f"failed to satisfy constraint: Member must {wanted}"
            )
            raise validation_error(message)


def _broken(value: str, shape: Any) -> str | None:
    """Return the constraint that a value breaks."""
    number = shape.type_name == "integer"
    if number and not value.isdecimal():
        return "be an integer"
    what, size = ("value", int(value)) if number else ("length", len(value))
    least, most, pattern = (shape.metadata.get(each) for each in ("min", "max", "pattern"))
    if least is not None and size < least:
        return f"have {what} greater than or equal to {least}"
    if most is not None and size > most:
        return f"have {what} less than or equal to {most}"
    # Python has no classes such as \p{ASCII}, and HTTP's headers allow nothing else.
    if pattern and r"\p" not in pattern and not re.search(pattern, value):
        return f"satisfy regular expression pattern: {pattern}"
    return None
