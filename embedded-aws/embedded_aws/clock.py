"""The control plane's clock: the time of metrics, alarms, deployments, cooldowns and schedules.

It runs `speed` times as fast as the wall clock. Requests are not compressed. Each counts as `speed` requests,
so that a minute here has the requests of a minute. Records such as CreationTime stay in the wall clock's
time.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The time of the control plane, which begins at the wall clock's.

    Attributes:
        speed: Seconds that pass here in one second of the wall clock. 1 is AWS's pace. With `math.inf`, waits
            are over at once, nothing is evaluated unless asked, and the clock shows the wall clock's time.
        began: The time of the clock at its start, in seconds since 1970.
    """

    speed: float = 1.0
    began: float = field(default_factory=lambda: time.time())  # noqa: PLW0108 -- a test replaces the function
    _mark: float = field(default_factory=lambda: time.monotonic())  # noqa: PLW0108

    def __post_init__(self) -> None:
        if not self.speed > 0:
            raise ValueError(f"the speed of a clock is above 0, not {self.speed}")

    def time(self) -> float:
        return self.began + (time.monotonic() - self._mark) * self.pace

    def now(self) -> datetime:
        return moment(self.time())

    def here(self, seconds: float) -> float:
        """Return the wall clock's seconds for seconds of the control plane; 0 if waits are over at once."""
        return seconds / self.speed

    def every(self, seconds: float) -> float:
        """Return the seconds of the wall clock between events that repeat; never 0."""
        return seconds / self.pace

    def wait(self, seconds: float) -> None:
        time.sleep(self.here(seconds))

    @property
    def requests(self) -> int:
        """The number of requests as which each counts, so that a rate stays the same."""
        return max(1, round(self.pace))

    @property
    def pace(self) -> float:
        """The speed; 1 if waits are over at once."""
        return 1.0 if math.isinf(self.speed) else self.speed

    def at_speed(self, speed: float) -> Clock:
        return Clock(speed=speed, began=self.time())


def moment(seconds: float) -> datetime:
    """Return a time in seconds since 1970 with its zone, UTC."""
    return datetime.fromtimestamp(seconds, tz=timezone.utc)


class _Current:
    clock = Clock()


def current() -> Clock:
    """Return the clock of the embedded AWS that is open; the wall clock without one."""
    return _Current.clock


def connect(clock: Clock | None) -> None:
    _Current.clock = clock or Clock()
