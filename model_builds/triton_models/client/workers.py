"""Threads for calls that may hang, so that callers can stop waiting at any time.

A socket's timeout applies only between bytes. DNS lookups and the retrieval of credentials have no timeout.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")

# An abandoned call keeps its thread and connection, and a process often has 1,024 descriptors. While calls
# of one kind hang, this many of it are accepted. Other kinds go on, unless this many hang in all.
MOST_HUNG_ALIKE = 64
MOST_HUNG = 256


class HungError(Exception):
    """A call did not end in time."""


class Workers:
    """Runs each call in a thread of its own, which is abandoned if the call hangs.

    A new thread takes 0.1 ms. Those of an executor would be waited for when Python exits.
    """

    def __init__(self) -> None:
        self._forget()

    def full(self, kind: str = "") -> bool:
        """Return whether so many calls hang that another one of a kind should not start."""
        if os.getpid() != self._process:  # threads do not survive a fork
            self._forget()
        with self._lock:
            if self._hung[kind] and self._running[kind] >= MOST_HUNG_ALIKE:
                return True
            return sum(min(each, MOST_HUNG_ALIKE) for each in self._hung.values()) >= MOST_HUNG

    def run(self, call: Callable[[], T], *, limit_s: float, kind: str = "") -> T:
        """Run a call in another thread with this thread's context variables, and return its result.

        Args:
            call: The call.
            limit_s: The time after which it is abandoned, in seconds.
            kind: The kind of calls that it counts for if it hangs.

        Raises:
            HungError: The call did not end in time; it continues without a caller.
        """
        if os.getpid() != self._process:
            self._forget()
        future = Future[T]()
        self._count(self._running, kind, future)
        _start(call, future)
        if not wait([future], timeout=min(limit_s, threading.TIMEOUT_MAX)).done:
            self._count(self._hung, kind, future)
            raise HungError
        try:
            return future.result()
        finally:
            del future  # its error refers to this frame

    def _count(self, counter: Counter[str], kind: str, future: Future[T]) -> None:
        """Count a call of a kind until it ends."""

        def end(_: Future[T]) -> None:
            with self._lock:
                counter[kind] -= 1
                if not counter[kind]:
                    del counter[kind]

        with self._lock:
            counter[kind] += 1
        future.add_done_callback(end)

    def _forget(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._hung, self._running = Counter[str](), Counter[str]()


def _start(call: Callable[[], T], future: Future[T]) -> None:
    context = contextvars.copy_context()

    def work() -> None:
        try:
            future.set_result(context.run(call))
        except BaseException as error:  # noqa: BLE001 (the caller handles it)
            future.set_exception(error)

    try:
        threading.Thread(target=work, name="fleet-client", daemon=True).start()
    except BaseException:
        future.cancel()  # it is counted no more
        raise
