"""The data points of metrics: samples by second, in constant memory per second."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

Dimensions = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class MetricKey:
    """The identity of a metric. Another set of dimensions is another metric.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        dimensions: Names and values, sorted.
    """

    namespace: str
    name: str
    dimensions: Dimensions = ()

    @classmethod
    def of(cls, namespace: str, name: str, dimensions: Iterable[Mapping[str, str]]) -> MetricKey:
        """Return the key of a metric whose dimensions are given as CloudWatch's API does."""
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
    """The samples of a time span.

    Attributes:
        values: The number of times that each value occurred.
        sets: Summaries, whose values are unknown.
        unit: The unit of the latest sample.
    """

    values: Counter[float] = field(default_factory=Counter)
    sets: list[StatisticSet] = field(default_factory=list)
    unit: str = "None"

    def add(self, other: Samples) -> None:
        """Add the samples of another span."""
        self.values.update(other.values)
        self.sets += other.sets
        self.unit = other.unit


class MetricStore:
    """All metrics of an account in a region. Threads may share it."""

    def __init__(self) -> None:
        self._series: dict[MetricKey, dict[tuple[int, str], Samples]] = {}
        self._lock = threading.Lock()

    def put(self, key: MetricKey, *, second: int, samples: Samples) -> None:
        """Add samples of one second, all with the unit that they name."""
        with self._lock:
            seconds = self._series.setdefault(key, {})
            seconds.setdefault((second, samples.unit), Samples(unit=samples.unit)).add(samples)

    def keys(self) -> list[MetricKey]:
        """Return the metrics that have data, sorted."""
        with self._lock:
            return sorted(self._series)

    def latest(self, key: MetricKey) -> int:
        """Return the time of a metric's newest sample, in seconds since 1970; 0 without any."""
        with self._lock:
            return max((second for second, _ in self._series.get(key, ())), default=0)

    def periods(
        self, key: MetricKey, *, start: int, end: int, period: int, unit: str | None = None
    ) -> dict[int, Samples]:
        """Return the samples of each period that has some, by the period's first second.

        Args:
            key: The metric.
            start: The first second of the first period.
            end: The first second that no longer counts.
            period: The length of a period, in seconds.
            unit: Only samples with this unit; None for any.
        """
        found: dict[int, Samples] = {}
        for second, samples in self._between(key, start, end):
            if unit is None or samples.unit == unit:
                found.setdefault(second - (second - start) % period, Samples()).add(samples)
        return dict(sorted(found.items()))

    def _between(self, key: MetricKey, start: int, end: int) -> Iterator[tuple[int, Samples]]:
        with self._lock:
            seconds = list(self._series.get(key, {}).items())
        return ((second, samples) for (second, _), samples in seconds if start <= second < end)
