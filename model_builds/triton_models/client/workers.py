"""Threads for calls that may hang, so that callers can stop waiting at any time.

A socket's timeout applies only between bytes. DNS lookups and the retrieval of credentials have no timeout.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# The time after which an idle thread ends, in seconds.
_IDLE_S = 30.0


class HungError(Exception):
    """A call did not end in time."""


class _Task(Generic[T]):
    """A call and its result."""

    def __init__(self, call: Callable[[], T]) -> None:
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

    def run(self, call: Callable[[], T], *, limit_s: float) -> T:
        """Run a call in another thread with this thread's context variables, and return its result.

        Raises:
            HungError: The call did not end in time; it continues without a caller.
        """
        if os.getpid() != self._process:  # threads do not survive a fork
            self._forget()
        task = _Task(call)
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = SimpleQueue()
            threading.Thread(target=self._work, args=(inbox,), name="fleet-client", daemon=True).start()
        inbox.put(task)
        return task.result(limit_s=limit_s)

    def _forget(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
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
            task.end()
            del task
