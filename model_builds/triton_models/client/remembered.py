"""A value that is read elsewhere, remembered, and read again in the background."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from triton_models.base.errors import FleetError
from triton_models.client.deadline import CLOCK, Clock, Deadline
from triton_models.client.failures import DEADLINE

T = TypeVar("T")

# A reading that takes longer is given up; another may begin.
_LOST_S = 60.0


class Remembered(Generic[T]):
    """A value of which there is always an answer once it was read; safe to use from many threads.

    One thread at a time reads. Only callers without an answer, or that need a new one, wait for it.

    Args:
        read: Reads the value; called with the last one, or None. It should take seconds at most.
        what: The value, for an error.
        age_s: For how long it is taken from memory before it is read again.
        clock: The clock of its age.
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
        # Readings are numbered; the last that began, ended, and gave the value.
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
        """The last value; an old one is read again in the background, whatever comes of that.

        Raises:
            FleetError: No value is known yet, and reading it fails or takes too long.
        """
        with self._changed:
            if self._value is None:
                # A reading that is under way is as good as another one.
                return self._wait(max(self._begun, self._ended + 1), deadline)
            if self._clock.now() - self._ended_at >= self.age_s:
                with contextlib.suppress(RuntimeError):  # no thread can be started, as when Python ends
                    self._begin()
            return self._value

    def fresh(self, deadline: Deadline) -> T:
        """A value whose reading begins now or later.

        Raises:
            FleetError: Reading it fails, or takes too long.
        """
        with self._changed:
            return self._wait(self._begun + 1, deadline)

    def _wait(self, number: int, deadline: Deadline) -> T:
        while self._ended < number:
            self._begin()
            if not self._changed.wait(min(deadline.left_s, _LOST_S)) and not deadline.left_s:
                raise self._not_in_time(deadline)
        if self._error is not None:
            raise _again(self._error)
        assert self._value is not None  # noqa: S101 (a reading without an error has one)
        return self._value

    def _begin(self) -> None:
        """Begin a reading unless one is under way."""
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
        except Exception as failed:  # noqa: BLE001 (it is raised where it is waited for)
            error = failed
        with self._changed:
            if error is None and number > self._kept:
                self._value, self._kept, self._kept_at = value, number, self._clock.now()
            if number > self._ended:
                self._ended, self._ended_at, self._error = number, self._clock.now(), error
            self._changed.notify_all()

    def _not_in_time(self, deadline: Deadline) -> FleetError:
        return FleetError.of(
            what=f"{self._what} was not read within {deadline.limit_s:g} seconds",
            where=self._what,
            expected="an answer of AWS in a second or two",
            why="without it no request can be sent",
            fix="check the network and the region, or give a longer deadline",
            rule=DEADLINE,
        )


def _again(error: Exception) -> Exception:
    """An error for one more thread: each has its own traceback."""
    return FleetError(error.problems) if type(error) is FleetError else error
