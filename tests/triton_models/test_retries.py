"""Pauses between attempts grow, differ, and end before the deadline."""

from __future__ import annotations

import pytest

from tests.triton_models.own_clock import OwnClock
from triton_models.client.deadline import Deadline
from triton_models.client.failures import Again, Failure, Retries


def failure(again: Again) -> Failure:
    return Failure(rule="r", what="w", fix="f", again=again)


SOON, LOADING = failure(Again.SOON), failure(Again.WHEN_LOADED)


def pauses(failed: Failure, *, attempts: int = 3, load_s: float = 360.0, deadline_s: float) -> list[float]:
    """All pauses of a call that fails until it is given up."""
    clock = OwnClock()
    retries = Retries(attempts=attempts, load_limit_s=load_s, deadline=Deadline(deadline_s, clock))
    while (pause := retries.pause(failed)) is not None:
        clock.wait(pause)
    return clock.waited


@pytest.mark.parametrize("attempts", [1, 2, 3, 10])
def test_there_is_a_pause_between_attempts_and_none_after_the_last(attempts: int) -> None:
    assert len(pauses(SOON, attempts=attempts, deadline_s=360.0)) == attempts - 1


def test_pauses_double_up_to_five_seconds() -> None:
    for pause, at_most in zip(
        pauses(SOON, attempts=8, deadline_s=360.0), [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0], strict=True
    ):
        assert at_most / 2 <= pause <= at_most


def test_two_clients_do_not_come_back_together() -> None:
    assert pauses(SOON, deadline_s=360.0) != pauses(SOON, deadline_s=360.0)


@pytest.mark.parametrize("again", [Again.NO, Again.ELSEWHERE])
def test_what_would_fail_again_has_no_pause(again: Again) -> None:
    assert pauses(failure(again), deadline_s=360.0) == []


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


def test_waits_for_a_load_are_no_attempts() -> None:
    retries = Retries(attempts=2, load_limit_s=360.0, deadline=Deadline(360.0, OwnClock()))
    assert all(retries.pause(LOADING) is not None for _ in range(5))
    assert retries.pause(SOON) is not None
    assert retries.pause(LOADING) is not None
    assert retries.pause(SOON) is None
