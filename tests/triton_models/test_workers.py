"""Workers run calls in time, pass on what comes of them, and survive calls that hang."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from triton_models.client.call import HungError, Workers

LIMIT_S = 30.0


def test_calls_that_hang_are_left_alone() -> None:
    workers, over = Workers(), threading.Event()
    try:
        for _ in range(5):
            with pytest.raises(HungError):
                workers.run(over.wait, limit_s=0.01)
        with ThreadPoolExecutor(64) as callers:
            squares = callers.map(lambda n: workers.run(lambda: n * n, limit_s=LIMIT_S), range(1000))
            assert list(squares) == [n * n for n in range(1000)]
    finally:
        over.set()


def test_calls_that_hang_are_limited_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triton_models.client.call.MOST_HUNG", 3)
    workers, over = Workers(), threading.Event()
    try:
        _hang(workers, over, "a", "b")
        assert not workers.full("d")
        _hang(workers, over, "c")
        assert workers.full("d")
    finally:
        over.set()


def test_a_call_that_ends_after_all_is_counted_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triton_models.client.call.MOST_HUNG_ALIKE", 1)
    workers, over, ended = Workers(), threading.Event(), threading.Event()

    def call() -> None:
        over.wait()
        ended.set()

    with pytest.raises(HungError):
        workers.run(call, limit_s=0.01, kind="a")
    assert workers.full("a")
    over.set()
    assert ended.wait(LIMIT_S)
    while workers.full("a"):
        workers.run(lambda: None, limit_s=LIMIT_S, kind="b")


def test_while_calls_of_a_kind_hang_those_in_progress_count_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triton_models.client.call.MOST_HUNG_ALIKE", 2)
    workers, over = Workers(), threading.Event()
    try:
        with ThreadPoolExecutor(1) as callers:
            assert workers.run(lambda: workers.full("a"), limit_s=LIMIT_S, kind="a") is False
            _hang(workers, over, "a")
            assert not workers.full("a")
            assert callers.submit(workers.run, lambda: workers.full("a"), limit_s=LIMIT_S, kind="a").result()
    finally:
        over.set()


def _hang(workers: Workers, over: threading.Event, *kinds: str) -> None:
    for kind in kinds:
        with pytest.raises(HungError):
            workers.run(over.wait, limit_s=0.01, kind=kind)


def test_a_fork_makes_threads_of_its_own() -> None:
    workers = Workers()
    workers.run(lambda: None, limit_s=LIMIT_S)
    child = os.fork()
    if child == 0:  # pragma: no cover (another process)
        status = 1
        try:
            status = workers.run(lambda: 0, limit_s=LIMIT_S)
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
