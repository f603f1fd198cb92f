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
    """The requests for a model and their results, its loads and its unloads."""

    warm: int = 0  # invocations that found the model loaded
    cold: int = 0  # the other invocations
    refused: int = 0  # requests that are no invocations: the model is still loading, missing or damaged
    failed: int = 0  # requests without success, the refused ones among them
    error: str = ""  # the newest reason for a failure
    loads: int = 0
    unloads: int = 0
    longest_load_s: float = 0.0  # into the container
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=_NEWEST))  # newest, with waits

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
