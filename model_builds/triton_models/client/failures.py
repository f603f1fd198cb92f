"""Failures of requests, with their reasons and retry policies."""

from __future__ import annotations

import json
import random
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

from triton_models.client.deadline import Deadline

DEADLINE = "deadline"
"""The rule of the error of a call past its deadline."""


class Again(Enum):
    """The retry policy of a failed request."""

    NO = "no"
    SOON = "soon"
    WHEN_LOADED = "when the model is loaded"
    ELSEWHERE = "if the endpoint or the artifact of the name has changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The failure of one request, with the facts of an `InvocationError`."""

    rule: str
    what: str
    fix: str
    again: Again
    code: str = ""
    status: int | None = None
    message: str = ""
    log_stream: str = ""


_NOT_READY = "ModelNotReadyException"
_THROTTLED = frozenset(
    {
        *("BandwidthLimitExceeded", "EC2ThrottledException", "LimitExceededException"),
        *("PriorRequestNotComplete", "RequestLimitExceeded", "RequestThrottled"),
        *("RequestThrottledException", "SlowDown", "ThrottledException", "Throttling"),
        *("ThrottlingException", "TooManyRequestsException", "TransactionInProgressException"),
    }
)
_TIMED_OUT = frozenset({"RequestTimeout", "RequestTimeoutException"})

# The common errors of AWS's services, in the names of newer and of older ones:
# https://docs.aws.amazon.com/singlesignon/latest/PortalAPIReference/CommonErrors.html, read 2026-11-27.
_NOT_SIGNED_IN = frozenset(
    {
        *("ExpiredToken", "ExpiredTokenException", "IncompleteSignature", "InvalidClientTokenId"),
        *("InvalidSignatureException", "MissingAuthenticationToken", "MissingAuthenticationTokenException"),
        *("RequestExpired", "SignatureDoesNotMatch", "UnrecognizedClientException"),
    }
)

# Triton's message about a model it has just loaded, while another one is loaded or unloaded.
_UNKNOWN_MODEL = "Request for unknown model"

_BAD_REQUEST, _TOO_MANY, _SERVER_ERROR = 400, 429, 500
_PASSING = frozenset({_TOO_MANY, 502, 503, 504})
_ENDED = "could not get a response"  # of SageMaker, if the container ends; the status is 0

_LATER = "retry later; if the error persists, check the endpoint's alarms and its log"


def failure_of(error: Exception) -> Failure | None:
    """Return the failure for an exception of a connection or of boto3's credentials; None for others."""
    from botocore.exceptions import BotoCoreError

    if isinstance(error, ssl.SSLCertVerificationError):
        return Failure(
            rule="certificate",
            what=f"the endpoint's certificate is not trusted: {error.verify_message}",
            fix="check AWS_ENDPOINT_URL and the proxy, and name their certificates with AWS_CA_BUNDLE",
            again=Again.NO,
            code=type(error).__name__,
            message=str(error),
        )
    if isinstance(error, OSError):
        return Failure(
            rule="no-answer",
            what=f"incomplete response: {str(error) or type(error).__name__}",
            fix="check the network, the region, and AWS_ENDPOINT_URL if it is set; then retry",
            again=Again.SOON,
            code=type(error).__name__,
            message=str(error),
        )
    if isinstance(error, BotoCoreError):
        return Failure(
            rule="invoke",
            what=f"the SDK cannot send the request: {error}",
            fix="check the AWS_* environment variables, ~/.aws/config and the request's names",
            again=Again.NO,
            code=type(error).__name__,
            message=str(error),
        )
    return None


def late(limit_s: float) -> Failure:
    """Return the failure of a request without a response before the deadline."""
    return Failure(
        rule=DEADLINE,
        what=f"no response within {limit_s:g} seconds",
        fix="check the endpoint's latency alarms and its log, or use a longer deadline_s",
        again=Again.NO,
    )


def answered(response: Mapping[str, Any]) -> Failure:
    """Return the failure for an error of the API, as botocore reads it."""
    error = response.get("Error") or {}
    code, message = str(error.get("Code") or ""), str(error.get("Message") or "")
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if code == "ModelError":
        return _of_model(response, message)
    failure = partial(Failure, code=code, status=status, message=message)
    if code == _NOT_READY:
        return failure(
            rule="model-not-ready",
            what=message or "the model is not loaded yet",
            fix="retry later; if the error persists, look for the model's load in the endpoint's log",
            again=Again.WHEN_LOADED,
        )
    if code in _THROTTLED or status == _TOO_MANY:
        return failure(
            rule="throttled",
            what=f"too many requests: {message or code}",
            fix="send fewer requests at a time, or increase the endpoint's capacity",
            again=Again.SOON,
        )
    if code in _NOT_SIGNED_IN:
        return failure(
            rule="credentials",
            what=f"the credentials are refused: {message or code}",
            fix="sign in again, or renew the session that the client was created with",
            again=Again.NO,
        )
    if code in _TIMED_OUT or (status is not None and status >= _SERVER_ERROR):
        return failure(
            rule="endpoint-failed",
            what=f"the endpoint failed: {message or code}",
            fix=_LATER,
            again=Again.SOON,
        )
    return failure(
        rule="invoke",
        what=message or code,
        fix="compare endpoint and repository with the stacks' outputs, and check the permission to invoke",
        again=Again.ELSEWHERE if code == "ValidationError" else Again.NO,
    )


def _of_model(response: Mapping[str, Any], message: str) -> Failure:
    """Return the failure for an error of the container."""
    status, said = response.get("OriginalStatusCode"), str(response.get("OriginalMessage") or message)
    log_stream = str(response.get("LogStreamArn") or "")
    failure = partial(Failure, code="ModelError", status=status, message=said, log_stream=log_stream)
    if status == _BAD_REQUEST and _UNKNOWN_MODEL in said:
        return failure(
            rule="model-unloaded",
            what=error_in(said),
            fix="retry; if the error persists, check that every model it calls is in its artifact",
            again=Again.SOON,
        )
    if status == _BAD_REQUEST:
        return failure(
            rule="invoke",
            what=error_in(said),
            fix="correct the model, or the inputs, which match its config.pbtxt",
            again=Again.NO,
        )
    return failure(
        rule="model-failed",
        what=error_in(said),
        fix="check the container's log; correct the model, or give it more time or memory",
        again=Again.SOON if status in _PASSING or (status == 0 and _ENDED in said) else Again.NO,
    )


def error_in(said: str) -> str:
    """Return the error of Triton's JSON answer; any other message as it is."""
    try:
        return str(json.loads(said)["error"]).strip()
    except (ValueError, TypeError, KeyError):
        return said


# The pause before a failed request is retried: the first one in seconds, and the growth factor.
_FIRST_S, _LONGEST_S = 0.2, 5.0

# The same pause for a model that is not loaded yet.
_FIRST_LOAD_S, _LONGEST_LOAD_S = 1.0, 30.0

# A pause is shortened by up to this share, so that clients do not retry at the same time.
_JITTER = 0.5

# With less remaining time, in seconds, another attempt is pointless.
_LEAST_S = 0.1


@dataclass(slots=True, kw_only=True)
class Retries:
    """The retries of one call.

    Attributes:
        attempts: The number of failures allowed, not counting those while the model loads.
        load_limit_s: The time limit for loading the model, from the first response that reports it.
    """

    attempts: int
    load_limit_s: float
    deadline: Deadline
    _failed: int = field(default=0, init=False)
    _loads: int = field(default=0, init=False)
    _loading: Deadline | None = field(default=None, init=False)

    def pause(self, failure: Failure) -> float | None:
        """Return the pause before the next attempt, in seconds; None if the request must not be retried."""
        if failure.again is Again.WHEN_LOADED:
            return self._until_loaded()
        self._failed += 1
        if failure.again is not Again.SOON or self._failed >= self.attempts:
            return None
        pause = _shortened(min(_FIRST_S * 2 ** (self._failed - 1), _LONGEST_S))
        return pause if pause + _LEAST_S <= self.deadline.left_s else None

    def _until_loaded(self) -> float | None:
        if self._loading is None:
            self._loading = Deadline(self.load_limit_s, self.deadline.clock)
        pause = _shortened(min(_FIRST_LOAD_S * 2.0**self._loads, _LONGEST_LOAD_S))
        self._loads += 1
        # The last attempt starts before the deadline, not at it.
        pause = min(pause, self._loading.left_s, self.deadline.left_s / 2)
        return pause if pause >= _LEAST_S else None


def _shortened(pause: float) -> float:
    return pause * (1 - _JITTER * random.random())  # noqa: S311 (not for security)
