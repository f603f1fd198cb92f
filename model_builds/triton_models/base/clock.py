"""A clock that tests replace."""

from __future__ import annotations

import asyncio
import time


class Clock:
    """A monotonic clock that can also wait."""

    def now(self) -> float:
        """Return the time in seconds."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        time.sleep(seconds)

    async def pause(self, seconds: float) -> None:
        """Wait in asyncio."""
        await asyncio.sleep(seconds)


CLOCK = Clock()
