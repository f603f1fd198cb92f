"""Failures of requests: their reasons, and whether another attempt can help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

DEADLINE = "deadline"
"""The rule of the error of a call that takes too long."""


class Again(Enum):
    """Whether a request that failed is sent again."""

    NO = "no"
    SOON = "soon"
    WHEN_LOADED = "when the model is loaded"
    ELSEWHERE = "if the endpoint, or the artifact of the name, is another one by now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The failure of one request.

    Attributes:
        rule: The id of its kind.
        what: What went wrong.
        expected: What was expected.
        fix: The next thing to do.
        again: Whether the request is sent again.
        code: The error's code; "" without one.
        status: The status of the model's own answer, otherwise that of SageMaker's; None without an answer.
        message: What the model said, otherwise SageMaker, otherwise the SDK.
        log_stream: The log of the container, where SageMaker names it.
    """

    rule: str
    what: str
    expected: str
    fix: str
    again: Again
    code: str = ""
    status: int | None = None
    message: str = ""
    log_stream: str = ""


_NOT_READY = "ModelNotReadyException"
_THROTTLED = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionInProgressException",
    }
)
_TIMED_OUT = frozenset({"RequestTimeout", "RequestTimeoutException"})

# What Triton says of a model that it has loaded a moment ago, while another one is loaded or unloaded.
_UNKNOWN_MODEL = "Request for unknown model"

_BAD_REQUEST, _TOO_MANY, _SERVER_ERROR = 400, 429, 500
_PASSING = frozenset({_TOO_MANY, 502, 503, 504})

_LATER = "send the request again later; if it goes on, look at the endpoint's alarms and its log"


def failure_of(error: Exception) -> Failure | None:
    """The failure that an exception of boto3, or of a connection, stands for; None for others."""
    import botocore.exceptions as aws
    from botocore.parsers import ResponseParserError
    from urllib3.exceptions import HTTPError

    if isinstance(error, aws.ClientError):
        return _answered(error.response)
    sdk = (aws.HTTPClientError, aws.ConnectionError, aws.IncompleteReadError, ResponseParserError)
    if isinstance(error, (*sdk, HTTPError, OSError)):  # the SDK passes some on as they are
        return Failure(
            rule="no-answer",
            what=f"no complete answer: {_said(error)}",
            expected="an answer of the endpoint",
            fix="check the network, the region, and AWS_ENDPOINT_URL if it is set; then send it again",
            again=Again.SOON,
            code=type(error).__name__,
            message=str(error),
        )
    if isinstance(error, aws.BotoCoreError):
        return Failure(
            rule="invoke",
            what=f"the SDK does not send the request: {error}",
            expected="usable credentials, and names that SageMaker accepts",
            fix="check the AWS_* environment variables, ~/.aws/config and the request's names",
            again=Again.NO,
            code=type(error).__name__,
            message=str(error),
        )
    return None


def late(limit_s: float) -> Failure:
    """The failure of a request that is not answered before the deadline."""
    return Failure(
        rule=DEADLINE,
        what=f"no answer within {limit_s:g} seconds",
        expected="an answer before the deadline",
        fix="look at the endpoint's latency alarms and its log, or give a longer deadline_s",
        again=Again.NO,
    )


def _answered(response: Mapping[str, Any]) -> Failure:
    """The failure that an error of the API stands for."""
    error = response.get("Error", {})
    code, message = str(error.get("Code", "")), str(error.get("Message", ""))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if code == "ModelError":
        return _of_model(response, message)
    facts = {"code": code, "status": status, "message": message}
    if code == _NOT_READY:
        return Failure(
            rule="model-not-ready",
            what=message or "the model is not loaded yet",
            expected="a model that loads within SageMaker's 360 seconds",
            fix="wait and send it again; if it goes on, look for the load in the endpoint's log",
            again=Again.WHEN_LOADED,
            **facts,
        )
    if code in _THROTTLED or status == _TOO_MANY:
        return Failure(
            rule="throttled",
            what=f"too many requests: {message or code}",
            expected="fewer requests than the endpoint and the account allow",
            fix="send fewer requests at a time, or raise the endpoint's capacity",
            again=Again.SOON,
            **facts,
        )
    if code in _TIMED_OUT or (status is not None and status >= _SERVER_ERROR):
        return Failure(
            rule="endpoint-failed",
            what=f"the endpoint fails: {message or code}",
            expected="an answer of the model",
            fix=_LATER,
            again=Again.SOON,
            **facts,
        )
    return Failure(
        rule="invoke",
        what=message or code,
        expected="a deployed multi-model endpoint, an artifact in its repository, permission to invoke it",
        fix="compare the endpoint's name and the repository with the stacks' outputs",
        again=Again.ELSEWHERE if code == "ValidationError" else Again.NO,
        **facts,
    )


def _of_model(response: Mapping[str, Any], message: str) -> Failure:
    """The failure that an error of the container stands for."""
    status, said = response.get("OriginalStatusCode"), str(response.get("OriginalMessage") or message)
    facts: dict[str, Any] = {
        "code": "ModelError",
        "status": status,
        "message": said,
        "log_stream": str(response.get("LogStreamArn") or ""),
    }
    if status == _BAD_REQUEST and _UNKNOWN_MODEL in said:
        return Failure(
            rule="model-unloaded",
            what=said,
            expected="the model that was loaded a moment ago",
            fix="send the request again; if it goes on, the model calls one that is not in its artifact",
            again=Again.SOON,
            **facts,
        )
    if status == _BAD_REQUEST:
        return Failure(
            rule="invoke",
            what=said,
            expected="a model that loads, and inputs that fit its config.pbtxt",
            fix="correct the inputs, or the model",
            again=Again.NO,
            **facts,
        )
    return Failure(
        rule="model-failed",
        what=said,
        expected="an answer of the model",
        fix="read the container's log; correct the model, or give it more time or memory",
        again=Again.SOON if status in _PASSING else Again.NO,
        **facts,
    )


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
