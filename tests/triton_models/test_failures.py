"""Exceptions of the SDK and of connections are failures that pass; those of a program do not pass."""

from __future__ import annotations

import botocore.exceptions as aws
import pytest
import urllib3.exceptions
from botocore.parsers import ResponseParserError

from triton_models.client.failures import Again, failure_of

CONNECTIONS = (
    TimeoutError("slow"),
    ConnectionResetError("gone"),
    urllib3.exceptions.SSLError("cut"),
    urllib3.exceptions.IncompleteRead(1, 2),
    aws.ReadTimeoutError(endpoint_url="u"),
    aws.ConnectTimeoutError(endpoint_url="u"),
    aws.ConnectionClosedError(endpoint_url="u"),
    aws.EndpointConnectionError(endpoint_url="u"),
    aws.ResponseStreamingError(error="e"),
    aws.IncompleteReadError(actual_bytes=1, expected_bytes=2),
    ResponseParserError("no XML"),
)


@pytest.mark.parametrize("error", CONNECTIONS, ids=lambda error: type(error).__name__)
def test_a_connection_that_fails_is_tried_again(error: Exception) -> None:
    failure = failure_of(error)
    assert failure is not None
    assert (failure.rule, failure.again, failure.code) == ("no-answer", Again.SOON, type(error).__name__)


def test_what_the_sdk_does_not_send_is_not_tried_again() -> None:
    failure = failure_of(aws.NoCredentialsError())
    assert failure is not None
    assert (failure.rule, failure.again) == ("invoke", Again.NO)


def test_a_mistake_of_a_program_is_no_failure() -> None:
    assert failure_of(ValueError("x")) is None
