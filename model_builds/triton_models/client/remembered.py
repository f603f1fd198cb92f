"""A cached value, refreshed in the background."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.clock import CLOCK, Clock
from triton_models.base.errors import FleetError
from triton_models.client.deadline import Deadline

T = TypeVar("T")

DEADLINE = Check(id="deadline", source=FROM_ARGUMENTS)

# A read that takes longer is abandoned, so that another can start.
_LOST_S = 60.0


class Remembered(Generic[T]):
    """A cached value that is always available after the first read; safe to use from many threads.

    One thread reads at a time. Only callers without a value, or that need a fresh one, wait for it.

    `read` gets the last value, or None. `age_s` is the age from which it is read again.
    """

    def __init__(
        self, read: Callable[[T | None], T], *, what: str, age_s: float, clock: Clock = CLOCK
    ) -> None:
        self.age_s = age_s
        self._read = read
        self._what = what
        self._clock = clock
        self._changed = threading.Condition()
        self._value: T | None = None
        self._error: Exception | None = None
        # Reads are numbered: the last one that started, the last that ended, and the one of the value.
        self._begun = self._ended = self._kept = 0
        self._begun_at = self._ended_at = self._kept_at = 0.0

    @property
    def value(self) -> T | None:
        """The last value; None if it was never read."""
        return self._value

    @property
    def seconds_old(self) -> float:
        """The time since the value was read."""
        return self._clock.now() - self._kept_at

    def get(self, deadline: Deadline) -> T:
        """Return the last value; refresh an old one in the background, ignoring errors."""
        with self._changed:
            if self._value is None:
                # A read in progress will do.
                return self._wait(max(self._begun, self._ended + 1), deadline)
            if self._clock.now() - self._ended_at >= self.age_s:
                with contextlib.suppress(RuntimeError):  # a thread cannot start while Python shuts down
                    self._begin()
            return self._value

    def fresh(self, deadline: Deadline) -> T:
        """Return a value from a read that starts after this call."""
        with self._changed:
            return self._wait(self._begun + 1, deadline)

    def _wait(self, number: int, deadline: Deadline) -> T:
        while self._ended < number:
            self._begin()
            if not self._changed.wait(min(deadline.left_s, _LOST_S)) and not deadline.left_s:
                raise DEADLINE.error(
                    what=f"{self._what} was not read within {deadline.limit_s:g} seconds",
                    where=self._what,
                    why="requests cannot be sent without it",
                    fix="check the network and the region, or use a longer deadline",
                )
        if isinstance(self._error, FleetError):
            raise FleetError(self._error.problems)  # each thread needs its own traceback
        if self._error is not None:
            raise self._error
        assert self._value is not None  # noqa: S101 (a read without an error has one)
        return self._value

    def _begin(self) -> None:
        """Start a read unless one is in progress."""
        now = self._clock.now()
        if self._ended < self._begun and now - self._begun_at < _LOST_S:
            return
        number = self._begun + 1
        threading.Thread(target=self._run, args=(number,), name="fleet-refresh", daemon=True).start()
        self._begun, self._begun_at = number, now

    def _run(self, number: int) -> None:
        value, error = None, None
        try:
            value = self._read(self._value)
        except Exception as failed:  # noqa: BLE001 (raised in the waiting threads)
            error = failed
        with self._changed:
            if error is None and number > self._kept:
                self._value, self._kept, self._kept_at = value, number, self._clock.now()
            if number > self._ended:
                self._ended, self._ended_at, self._error = number, self._clock.now(), error
            self._changed.notify_all()
