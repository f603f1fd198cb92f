"""Threads for calls that may hang, so that callers can stop waiting at any time.

A socket's timeout applies only between bytes. DNS lookups and the retrieval of credentials have no timeout.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections import Counter
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# The time after which an idle thread ends, in seconds.
_IDLE_S = 30.0

# An abandoned call keeps its thread and connection, and a process often has 1,024 descriptors. While calls
# of one kind hang, this many of it are accepted. Other kinds go on, unless this many hang in all.
MOST_HUNG_ALIKE = 64
MOST_HUNG = 256


class HungError(Exception):
    """A call did not end in time."""


class _Task(Generic[T]):
    """A call and its result."""

    def __init__(self, call: Callable[[], T], kind: str) -> None:
        self.kind = kind
        self.over = self.abandoned = False
        self._call = call
        self._context = contextvars.copy_context()
        self._ended = threading.Lock()
        self._ended.acquire()
        self._value: T
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._value = self._context.run(self._call)
        except BaseException as error:  # noqa: BLE001 (the caller handles it)
            self._error = error

    def end(self) -> None:
        self._ended.release()

    def result(self, *, limit_s: float) -> T:
        if not self._ended.acquire(timeout=min(limit_s, threading.TIMEOUT_MAX)):
            raise HungError
        if self._error is None:
            return self._value
        try:
            raise self._error
        finally:
            self._error = None  # it refers to this frame


class Workers:
    """Threads that are created on demand, reused while there is work, and abandoned when they hang."""

    def __init__(self) -> None:
        self._forget()

    def full(self, kind: str = "") -> bool:
        """Return whether so many calls hang that another one of a kind should not start."""
        self._forget_after_fork()
        with self._lock:
            hung = self._hung[kind]
            if hung and hung + self._running[kind] >= MOST_HUNG_ALIKE:
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
        self._forget_after_fork()
        task = _Task(call, kind)
        with self._lock:
            self._running[kind] += 1
            inbox = self._idle.pop() if self._idle else None
        try:
            if inbox is None:
                inbox = SimpleQueue()
                threading.Thread(target=self._work, args=(inbox,), name="fleet-client", daemon=True).start()
            inbox.put(task)
            return task.result(limit_s=limit_s)
        except HungError:
            with self._lock:
                if not task.over:
                    task.abandoned = True
                    self._hung[kind] += 1
            raise
        finally:
            with self._lock:
                _count_down(self._running, kind)

    def _forget_after_fork(self) -> None:
        if os.getpid() != self._process:  # threads do not survive it
            self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._hung, self._running = Counter[str](), Counter[str]()
        self._idle: list[SimpleQueue[_Task[Any]]] = []

    def _work(self, inbox: SimpleQueue[_Task[Any]]) -> None:
        while True:
            try:
                task = inbox.get(timeout=_IDLE_S)
            except Empty:
                with self._lock:
                    if inbox in self._idle:
                        self._idle.remove(inbox)
                        return
                continue  # a task is about to arrive
            task.run()
            with self._lock:
                self._idle.append(inbox)  # before its caller makes the next call
                task.over = True
                if task.abandoned:
                    _count_down(self._hung, task.kind)
            task.end()
            del task


def _count_down(counter: Counter[str], kind: str) -> None:
    counter[kind] -= 1
    if not counter[kind]:
        del counter[kind]
