"""Exceptions of the SDK and of connections pass; pauses between attempts grow and end in time."""

from __future__ import annotations

import socket
import ssl

import botocore.exceptions as aws
import pytest

from tests.triton_models.own_clock import OwnClock
from triton_models.client.deadline import Deadline
from triton_models.client.failures import Again, Failure, Retries, failure_of

CONNECTIONS = (
    TimeoutError("slow"),
    ConnectionResetError("gone"),
    ssl.SSLError("cut"),
    socket.gaierror("who?"),
)


@pytest.mark.parametrize("error", CONNECTIONS, ids=lambda error: type(error).__name__)
def test_a_connection_that_fails_is_tried_again(error: Exception) -> None:
    failure = failure_of(error)
    assert failure is not None
    assert (failure.rule, failure.again, failure.code) == ("no-answer", Again.SOON, type(error).__name__)


def test_credentials_that_cannot_be_fetched_are_no_reason_to_try_again() -> None:
    failure = failure_of(aws.CredentialRetrievalError(provider="p", error_msg="e"))
    assert failure is not None
    assert (failure.rule, failure.again) == ("invoke", Again.NO)


def test_a_mistake_of_a_program_is_no_failure() -> None:
    assert failure_of(ValueError("x")) is None


# The pauses between attempts


def failure(again: Again) -> Failure:
    return Failure(rule="r", what="w", fix="f", again=again)


SOON, LOADING = failure(Again.SOON), failure(Again.WHEN_LOADED)


def pauses(failed: Failure, *, attempts: int = 3, load_s: float = 360.0, deadline_s: float) -> list[float]:
    clock = OwnClock()
    retries = Retries(attempts=attempts, load_limit_s=load_s, deadline=Deadline(deadline_s, clock))
    while (pause := retries.pause(failed)) is not None:
        clock.wait(pause)
    return clock.waited


def test_pauses_double_up_to_five_seconds() -> None:
    for pause, at_most in zip(
        pauses(SOON, attempts=8, deadline_s=360.0), [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0], strict=True
    ):
        assert at_most / 2 <= pause <= at_most


@pytest.mark.parametrize("deadline_s", [0.01, 0.25, 1.0, 7.0])
def test_no_pause_ends_after_the_deadline(deadline_s: float) -> None:
    assert sum(pauses(SOON, attempts=1000, deadline_s=deadline_s)) < deadline_s
    assert sum(pauses(LOADING, deadline_s=deadline_s)) < deadline_s


def test_waits_for_a_load_grow_to_half_a_minute_and_end_with_its_limit() -> None:
    waited = pauses(LOADING, load_s=360.0, deadline_s=3600.0)
    for pause, at_most in zip(waited, [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0], strict=False):
        assert at_most / 2 <= pause <= at_most
    assert max(waited) <= 30.0
    assert sum(waited) == pytest.approx(360.0, abs=0.2)
