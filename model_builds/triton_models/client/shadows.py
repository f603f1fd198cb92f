"""Copies of answered requests, sent to candidates that are compared before they answer anything."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from threading import BoundedSemaphore

from triton_models.base.answers import same
from triton_models.client.batches import Answer
from triton_models.client.call import Call, start
from triton_models.client.deadline import Deadline
from triton_models.client.service import Request
from triton_models.repository.manifest import Rollout
from triton_models.signals.recorder import Recorder

AT_ONCE = 8
"""The most copies of a process in progress. What is beyond them is not compared."""


class Shadows:
    """Sends copies besides the calls, and counts the answers that differ; safe to use from many threads."""

    def __init__(
        self, *, ask: Callable[[Call, Request], Answer], deadline: Callable[[], Deadline], recorder: Recorder
    ) -> None:
        self._ask, self._deadline, self._recorder = ask, deadline, recorder
        self._begin()

    def _begin(self) -> None:
        self._process, self._free = os.getpid(), BoundedSemaphore(AT_ONCE)

    def send(self, call: Call, candidate: Rollout, request: Request, answer: Answer) -> None:
        """Send a copy of an answered call, unless too many are in progress."""
        if self._process != os.getpid():
            self._begin()
        free = self._free
        if free.acquire(blocking=False):
            # The caller may change its arrays from now on.
            copy = Request(buffers=[b"".join(request.buffers)], content_type=request.content_type)
            asked = partial(self._compare, call.model, candidate, copy, answer)
            start(partial(_then, asked, free.release), Future())

    def _compare(self, model: str, candidate: Rollout, request: Request, answer: Answer) -> None:
        """Ask the candidate; a failure counts as an error of it."""
        call = Call(model=model, artifact=candidate.artifact, deadline=self._deadline(), fixed=True)
        other = self._ask(call, request)
        self._recorder.compared(
            endpoint=call.endpoint,
            artifact=(model, candidate.artifact),
            same=same(answer, other, tolerance=candidate.tolerance),
        )


def _then(do: Callable[[], None], after: Callable[[], None]) -> None:
    try:
        do()
    finally:
        after()
