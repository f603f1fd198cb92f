"""The data points of metrics: samples by second, and after three hours by minute, as CloudWatch keeps them.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_concepts.html, read 2026-11-23.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_BY_SECOND_S = 3 * 3600
_MINUTE_S = 60

# The values of an old minute. CloudWatch's own number is not documented.
_VALUES_PER_MINUTE = 500

Dimensions = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class MetricKey:
    """The identity of a metric. Another set of dimensions is another metric."""

    namespace: str
    name: str
    dimensions: Dimensions = ()

    @classmethod
    def of(cls, namespace: str, name: str, dimensions: Iterable[Mapping[str, str]]) -> MetricKey:
        pairs = tuple(sorted((each["Name"], each["Value"]) for each in dimensions))
        return cls(namespace=namespace, name=name, dimensions=pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticSet:
    """Samples that were summarized before they were sent."""

    count: float
    total: float
    least: float
    most: float


@dataclass(slots=True)
class Samples:
    """The samples of a time span: how often each value occurred, summaries, and the unit of the latest."""

    values: Counter[float] = field(default_factory=Counter)
    sets: list[StatisticSet] = field(default_factory=list)
    unit: str = "None"

    def add(self, other: Samples) -> None:
        self.values.update(other.values)
        self.sets += other.sets
        self.unit = other.unit


def at_most(limit: int, values: Mapping[float, int]) -> list[tuple[float, int]]:
    """Return at most so many values with their numbers, sorted.

    Neighbors become their mean. The number of all values, their sum, minimum and maximum stay. With 150
    values, a percentile moves by less than two hundredths of the rank.
    """
    items = sorted(values.items())
    if len(items) <= limit:
        return items
    first, *middle, last = items
    size = math.ceil(len(middle) / (limit - 2))
    return [first, *(_mean(middle[at : at + size]) for at in range(0, len(middle), size)), last]


def _mean(items: Sequence[tuple[float, int]]) -> tuple[float, int]:
    count = sum(number for _, number in items)
    return sum(value * number for value, number in items) / count, count


class _Series:
    """The samples of a metric, by their first second and unit."""

    def __init__(self) -> None:
        self.seconds: dict[tuple[int, str], Samples] = {}
        self.minutes: dict[tuple[int, str], Samples] = {}

    def put(self, second: int, samples: Samples) -> None:
        _add(self.seconds, second, samples)
        while (oldest := next(iter(self.seconds)))[0] < second - _BY_SECOND_S:
            minute = _add(self.minutes, oldest[0] - oldest[0] % _MINUTE_S, self.seconds.pop(oldest))
            minute.values = Counter(dict(at_most(_VALUES_PER_MINUTE, minute.values)))

    def items(self) -> list[tuple[tuple[int, str], Samples]]:
        return [*self.minutes.items(), *self.seconds.items()]


def _add(spans: dict[tuple[int, str], Samples], start: int, samples: Samples) -> Samples:
    span = spans.setdefault((start, samples.unit), Samples(unit=samples.unit))
    span.add(samples)
    return span


class MetricStore:
    """All metrics of an account in a region. Threads may share it."""

    def __init__(self) -> None:
        self._series: dict[MetricKey, _Series] = {}
        self._lock = threading.Lock()

    def put(self, key: MetricKey, *, second: int, samples: Samples) -> None:
        """Add samples of one second, all with the unit that they name."""
        with self._lock:
            self._series.setdefault(key, _Series()).put(second, samples)

    def keys(self) -> list[MetricKey]:
        with self._lock:
            return sorted(self._series)

    def latest(self, key: MetricKey) -> int:
        """Return the time of a metric's newest sample, in seconds since 1970; 0 without any."""
        with self._lock:
            series = self._series.get(key)
            return max((second for (second, _), _ in series.items()), default=0) if series else 0

    def periods(
        self, key: MetricKey, *, start: int, end: int, period: int, unit: str | None = None
    ) -> dict[int, Samples]:
        """Return the samples of each period that has some, by the period's first second."""
        found: dict[int, Samples] = {}
        for second, samples in self._between(key, start, end):
            if unit is None or samples.unit == unit:
                found.setdefault(second - (second - start) % period, Samples()).add(samples)
        return dict(sorted(found.items()))

    def _between(self, key: MetricKey, start: int, end: int) -> Iterator[tuple[int, Samples]]:
        with self._lock:
            series = self._series.get(key)
            spans = series.items() if series else []
        return ((second, samples) for (second, _), samples in spans if start <= second < end)
