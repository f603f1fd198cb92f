"""A remembered value is read by one thread at a time, and no caller that knows an answer waits."""

from __future__ import annotations

import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import pytest

from tests.triton_models.own_clock import OwnClock
from triton_models.base.errors import FleetError
from triton_models.client.deadline import Deadline
from triton_models.client.remembered import Remembered

SOON = Deadline(3600.0)
AGE_S = 10.0


class Source:
    def __init__(self) -> None:
        self.begun = 0
        self.known: list[str | None] = []
        self._began: SimpleQueue[None] = SimpleQueue()
        self._answered = 0
        self._answers: dict[int, SimpleQueue[str | Exception]] = defaultdict(SimpleQueue)

    def read(self, known: str | None) -> str:
        self.begun += 1
        self.known.append(known)
        self._began.put(None)
        answer = self._answers[len(self.known)].get(timeout=30)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def answer(self, answer: str | Exception, *, reading: int | None = None) -> None:
        """Answer a reading; by default the first that has no answer yet."""
        self._answered = reading or self._answered + 1
        self._answers[self._answered].put(answer)

    def wait_until_asked(self) -> None:
        self._began.get(timeout=30)


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def clock() -> OwnClock:
    return OwnClock()


@pytest.fixture
def value(source: Source, clock: OwnClock) -> Remembered[str]:
    """A value that was read once, and is "first"."""
    value = Remembered(source.read, what="the value", age_s=AGE_S, clock=clock)
    source.answer("first")
    assert value.get(SOON) == "first"
    source.wait_until_asked()
    return value


def problem() -> FleetError:
    return FleetError.of(what="x", where="x", fix="x", rule="broken")


def test_an_old_value_is_the_answer_while_it_is_read_again(
    value: Remembered[str], source: Source, clock: OwnClock
) -> None:
    clock.tick(AGE_S - 1)
    assert value.get(SOON) == "first"
    assert source.begun == 1
    clock.tick(1)
    assert [value.get(SOON) for _ in range(5)] == ["first"] * 5
    source.wait_until_asked()
    assert source.begun == 2
    source.answer("second")
    source.answer("third")
    assert value.fresh(SOON) == "third"
    assert source.known == [None, "first", "second"]


def test_a_reading_that_fails_keeps_the_value_and_is_tried_again_after_its_age(
    value: Remembered[str], source: Source, clock: OwnClock
) -> None:
    clock.tick(AGE_S)
    source.answer(problem())
    with pytest.raises(FleetError, match="broken"):
        value.fresh(SOON)
    source.wait_until_asked()
    assert value.get(SOON) == "first"
    assert source.begun == 2
    clock.tick(AGE_S)
    assert value.get(SOON) == "first"
    source.wait_until_asked()
    assert source.begun == 3
    source.answer("third")


def test_a_fresh_value_is_not_one_whose_reading_had_begun_before(
    value: Remembered[str], source: Source, clock: OwnClock
) -> None:
    clock.tick(AGE_S)
    value.get(SOON)
    source.wait_until_asked()
    with ThreadPoolExecutor(1) as threads:
        fresh = threads.submit(value.fresh, SOON)
        source.answer("begun before")
        source.answer("begun after")
        assert fresh.result() == "begun after"


def test_a_value_that_does_not_come_in_time_is_an_error(source: Source) -> None:
    value = Remembered(source.read, what="the value", age_s=AGE_S)
    with pytest.raises(FleetError) as caught:
        value.get(Deadline(0.05))
    (problem,) = caught.value.problems
    assert (problem.rule, problem.where) == ("deadline", "the value")
    source.answer("first")


def test_a_reading_that_never_ends_is_followed_by_another_and_cannot_undo_it(
    value: Remembered[str], source: Source, clock: OwnClock
) -> None:
    clock.tick(AGE_S)
    value.get(SOON)
    source.wait_until_asked()
    clock.tick(61.0)
    assert value.get(SOON) == "first"
    source.wait_until_asked()
    assert source.begun == 3
    source.answer("third", reading=3)
    source.answer("fourth", reading=4)
    assert value.fresh(SOON) == "fourth"
    source.answer("second", reading=2)
    for thread in threading.enumerate():
        if thread.name == "fleet-refresh":
            thread.join()
    assert value.get(SOON) == "fourth"
