"""Retries of failed requests, and the pauses between them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from triton_models.client.deadline import Deadline
from triton_models.client.failures import Again, Failure

# The pause before a failed request is retried: the first one in seconds, and the growth factor.
_FIRST_S, _LONGEST_S = 0.2, 5.0

# The same pause for a model that is not loaded yet.
_FIRST_LOAD_S, _LONGEST_LOAD_S = 1.0, 30.0

# A pause is shortened by up to this share, so that clients do not retry at the same time.
_JITTER = 0.5

# With less remaining time, in seconds, another attempt is pointless.
_LEAST_S = 0.1


@dataclass(slots=True, kw_only=True)
class Retries:
    """The retries of one call.

    Attributes:
        attempts: The number of failures allowed, not counting those while the model loads.
        load_limit_s: The time limit for loading the model, from the first response that reports it.
    """

    attempts: int
    load_limit_s: float
    deadline: Deadline
    _failed: int = field(default=0, init=False)
    _loads: int = field(default=0, init=False)
    _loading: Deadline | None = field(default=None, init=False)

    def pause(self, failure: Failure) -> float | None:
        """Return the pause before the next attempt, in seconds; None if the request must not be retried."""
        if failure.again is Again.WHEN_LOADED:
            return self._until_loaded()
        self._failed += 1
        if failure.again is not Again.SOON or self._failed >= self.attempts:
            return None
        pause = _shortened(min(_FIRST_S * 2 ** (self._failed - 1), _LONGEST_S))
        return pause if pause + _LEAST_S <= self.deadline.left_s else None

    def _until_loaded(self) -> float | None:
        if self._loading is None:
            self._loading = Deadline(self.load_limit_s, self.deadline.clock)
        pause = _shortened(min(_FIRST_LOAD_S * 2.0**self._loads, _LONGEST_LOAD_S))
        self._loads += 1
        # The last attempt starts before the deadline, not at it.
        pause = min(pause, self._loading.left_s, self.deadline.left_s / 2)
        return pause if pause >= _LEAST_S else None


def _shortened(pause: float) -> float:
    return pause * (1 - _JITTER * random.random())  # noqa: S311 (not for security)
