"""Counts of a model's requests that can be added up, with the distribution of their times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

BUCKETS_PER_OCTAVE = 16
"""The buckets of times between a time and its double: a percentile is right within 3.2 %."""

OTHERS = "(others)"
"""The name for what is beyond `MOST_MODELS`."""

MOST_MODELS = 10_000
"""The most artifacts that are counted apart in a minute or an hour of a process."""


def bucket(seconds: float) -> int:
    """Return the bucket of a time, which may be negative."""
    fraction, exponent = math.frexp(max(seconds, 1e-6))
    return exponent * BUCKETS_PER_OCTAVE + int((fraction - 0.5) * 2 * BUCKETS_PER_OCTAVE)


def middle(number: int) -> float:
    """Return the seconds in the middle of a bucket."""
    exponent, part = divmod(number, BUCKETS_PER_OCTAVE)
    return math.ldexp(0.5 + (part + 0.5) / BUCKETS_PER_OCTAVE / 2, exponent)


@dataclass(slots=True, kw_only=True)
class Counts:
    """The requests for an artifact, in some time.

    Attributes:
        requests: The calls that ended, whatever their attempts.
        seconds: The time of those that were answered.
        waited: The answered calls that were refused first because the model was not loaded yet.
        waited_s: The time of these until then.
        errors: The calls that failed, by the rule of their error.
        times: The answered calls by bucket of their time.
        compared: The calls whose answer was compared with that of the current version.
        differing: Those of them with another answer.
    """

    requests: int = 0
    seconds: float = 0.0
    waited: int = 0
    waited_s: float = 0.0
    errors: dict[str, int] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)
    compared: int = 0
    differing: int = 0

    def count(self, *, seconds: float, error: str, waited_s: float | None) -> None:
        """Count a call that ended, with its error, or ""."""
        self.requests += 1
        if error:
            self.errors[error] = self.errors.get(error, 0) + 1
            return
        self.seconds += seconds
        number = bucket(seconds)
        self.times[number] = self.times.get(number, 0) + 1
        if waited_s is not None:
            self.waited += 1
            self.waited_s += waited_s

    def add(self, other: Counts) -> None:
        """Add other counts."""
        self.requests += other.requests
        self.seconds += other.seconds
        self.waited += other.waited
        self.waited_s += other.waited_s
        self.compared += other.compared
        self.differing += other.differing
        for error, number in other.errors.items():
            self.errors[error] = self.errors.get(error, 0) + number
        for key, number in other.times.items():
            self.times[key] = self.times.get(key, 0) + number

    @classmethod
    def sum(cls, parts: Iterable[Counts]) -> Counts:
        """Return the sum of counts."""
        total = cls()
        for part in parts:
            total.add(part)
        return total

    @property
    def failed(self) -> int:
        """The calls that failed."""
        return sum(self.errors.values())

    def percentile(self, share: float) -> float:
        """Return the time in seconds that a share of the answered calls took at most; NaN without any."""
        left = math.ceil(share * sum(self.times.values()))
        for number in sorted(self.times):
            left -= self.times[number]
            if left <= 0:
                return middle(number)
        return math.nan

    def as_list(self) -> list[Any]:
        """Return it as JSON-ready data."""
        times = [[key, number] for key, number in sorted(self.times.items())]
        waits = [self.waited, round(self.waited_s, 6)]
        answers = [self.compared, self.differing] if self.compared else []
        return [self.requests, round(self.seconds, 6), *waits, self.errors, times, *answers]

    @classmethod
    def of_list(cls, found: Any) -> Counts:
        """Return what `as_list` has written.

        Raises:
            ValueError: It is anything else.
        """
        try:
            requests, seconds, waited, waited_s, errors, times, *answers = found
            compared, differing = answers or (0, 0)
            counts = cls(
                requests=_count(requests),
                seconds=_seconds(seconds),
                waited=_count(waited),
                waited_s=_seconds(waited_s),
                errors={str(name): _count(number) for name, number in errors.items()},
                times={int(key): _count(number) for key, number in times},
                compared=_count(compared),
                differing=_count(differing),
            )
        except (TypeError, AttributeError) as error:
            raise ValueError(str(error)) from None
        if sum(counts.times.values()) + counts.failed != counts.requests:
            msg = "the times and the errors are not as many as the requests"
            raise ValueError(msg)
        return counts


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        msg = f"{value!r} is no number of requests"
        raise ValueError(msg)
    return value


def _seconds(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        msg = f"{value!r} is no time"
        raise ValueError(msg)
    return float(value)


Artifact = tuple[str, str]
"""A model and its artifact."""

Key = TypeVar("Key")


def added(all_of_them: Iterable[Mapping[Key, Counts]]) -> dict[Key, Counts]:
    """Return the sum of counts by key, such as an artifact."""
    sums: dict[Key, Counts] = {}
    for part in all_of_them:
        for key, counts in part.items():
            sums.setdefault(key, Counts()).add(counts)
    return sums
