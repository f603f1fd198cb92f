"""The figures of each model of an endpoint. A request counts once, however fast the clock runs."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from triton_rehearsal.hosting.metrics import Event, Load, Unload

_NEWEST = 500
_LONGEST_ERROR = 300


@dataclass(slots=True, kw_only=True)
class ModelFigures:
    """The requests for a model and their results, its loads and its unloads.

    Attributes:
        warm: Number of invocations that found the model loaded.
        cold: Number of the other invocations.
        refused: Number of requests that SageMaker refused, and so does not count as invocations: the model is
            still loading, missing or damaged.
        failed: Number of requests that were not answered with success; the refused ones are among them.
        error: The newest reason for a failure.
        loads: Number of loads, on any instance.
        unloads: Number of unloads.
        longest_load_s: The longest load into the container, in seconds.
        seconds: The times of the newest answered requests, with the wait for the model.
    """

    warm: int = 0
    cold: int = 0
    refused: int = 0
    failed: int = 0
    error: str = ""
    loads: int = 0
    unloads: int = 0
    longest_load_s: float = 0.0
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=_NEWEST))

    @property
    def requests(self) -> int:
        """The number of requests."""
        return self.warm + self.cold + self.refused

    @property
    def cold_percent(self) -> float | None:
        """The share of invocations that did not find the model loaded; None without any."""
        invoked = self.warm + self.cold
        return 100 * self.cold / invoked if invoked else None

    def count(self, *, seconds: float, loaded: bool, error: str = "") -> None:
        """Count an invocation; the error is empty if it was answered."""
        if loaded:
            self.warm += 1
        else:
            self.cold += 1
        if error:
            self._fail(error)
        else:
            self.seconds.append(seconds)

    def refuse(self, error: str) -> None:
        """Count a request that SageMaker refused."""
        self.refused += 1
        self._fail(error)

    def note(self, event: Event) -> None:
        """Count a load or an unload."""
        if isinstance(event, Load):
            self.loads += 1
            self.longest_load_s = max(self.longest_load_s, event.seconds)
        elif isinstance(event, Unload):
            self.unloads += 1

    def _fail(self, error: str) -> None:
        self.failed += 1
        self.error = error if len(error) <= _LONGEST_ERROR else f"{error[:_LONGEST_ERROR]}…"


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that a percentage of all values do not exceed; 0 without values."""
    ranked = sorted(values)
    return ranked[math.ceil(len(ranked) * percent / 100) - 1] if ranked else 0.0
