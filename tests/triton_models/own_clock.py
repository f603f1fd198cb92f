"""A clock that moves when a test says so, or by waiting."""

from __future__ import annotations

from triton_models.client import Clock


class OwnClock(Clock):
    """Stands still, except for waits.

    Attributes:
        waited: Every wait, in seconds.
    """

    def __init__(self) -> None:
        self._now = 1000.0
        self.waited: list[float] = []

    def now(self) -> float:
        return self._now

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.tick(seconds)

    async def pause(self, seconds: float) -> None:
        self.wait(seconds)

    def tick(self, seconds: float) -> None:
        self._now += seconds
