"""The time that a call may take."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


class Clock:
    """A clock that does not go back, and waits by it."""

    def now(self) -> float:
        """The time in seconds."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Return after that many seconds."""
        time.sleep(seconds)


CLOCK = Clock()


@dataclass(frozen=True, slots=True)
class Deadline:
    """The end of a call.

    Attributes:
        limit_s: How long the call may take, in seconds.
        clock: Its clock.
        began: When the call began.
    """

    limit_s: float
    clock: Clock = CLOCK
    began: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "began", self.clock.now())

    @property
    def elapsed_s(self) -> float:
        """The time since the call began."""
        return self.clock.now() - self.began

    @property
    def left_s(self) -> float:
        """The time that is left; 0 when it is over."""
        return max(0.0, self.limit_s - self.elapsed_s)
