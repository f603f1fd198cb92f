"""The requests of a plan, in parts: moments and models."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.load.schedule import MOST, Schedule
from triton_models.plan.compiled import Array, draw_requests

REQUESTS = Check(id="plan-requests", source=FROM_ARGUMENTS)

_PART = 1 << 14  # so that they stay in the cache of a core
_MINUTE_S = 60.0


class Traffic(Protocol):
    """Requests. The same ones come each time."""

    @property
    def seconds(self) -> float:
        """The length."""

    @property
    def count(self) -> int:
        """The number of requests."""

    @property
    def warm_up(self) -> int:
        """The number of requests that are not counted, in which models are loaded for the first time."""

    def rates(self) -> Array:
        """Return the requests per second of each model, in the mean."""

    def busiest(self) -> float:
        """Return the requests per second of the busiest minute."""

    def parts(self) -> Iterator[tuple[Array, Array]]:
        """Yield moments in order, and the indices of models."""

    def __str__(self) -> str:
        """Return it in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """A Poisson process of constant rate.

    Attributes:
        rate: Requests per second.
        models: The number of models, the most popular one first.
        popularity: The exponent of Zipf's law.
    """

    rate: float
    seconds: float
    models: int
    popularity: float
    seed: int = 1

    @property
    def count(self) -> int:
        """The number of requests."""
        return max(1, round(self.rate * self.seconds))

    @property
    def warm_up(self) -> int:
        """A tenth: that of a fleet which has served for long is asked for."""
        return self.count // 10

    def __str__(self) -> str:
        how = f"popular by Zipf's law with {self.popularity:g}" if self.popularity else "all equally popular"
        return f"{self.rate:g} requests/s for {self.seconds / 3600:.1f} h, {how}"

    def rates(self) -> Array:
        """Return the requests per second of each model."""
        weights = np.arange(1, self.models + 1, dtype=float) ** -self.popularity
        found: Array = self.rate * weights / weights.sum()
        return found

    def busiest(self) -> float:
        """Return the rate."""
        return self.rate

    def parts(self) -> Iterator[tuple[Array, Array]]:
        """Yield moments and models, computed in a thread while the last ones are in use."""
        chance, shares = np.random.default_rng(self.seed), self.rates() / self.rate
        keep, other = _aliases(shares)
        lengths = [*_lengths(self.warm_up), *_lengths(self.count - self.warm_up)]

        def draw(count: int, after: float) -> tuple[Array, Array]:
            at, model = np.empty(count), np.empty(count, np.int32)
            draw_requests(chance, keep, other, after, 1 / self.rate, at, model)
            return at, model

        with ThreadPoolExecutor(1) as thread:
            coming = thread.submit(draw, lengths[0], 0.0)
            for count in [*lengths[1:], 0]:
                at, model = coming.result()
                if count:
                    coming = thread.submit(draw, count, float(at[-1]))
                yield at, model


def _lengths(count: int) -> Iterator[int]:
    """Yield the lengths of parts."""
    for start in range(0, count, _PART):
        yield min(_PART, count - start)


def _aliases(shares: Array) -> tuple[Array, Array]:
    """Return Walker's table, of which a column and a number between 0 and 1 choose an index."""
    count = len(shares)
    keep, other = shares * count, np.arange(count, dtype=np.int32)
    small = [int(each) for each in np.flatnonzero(keep < 1)]
    large = [int(each) for each in np.flatnonzero(keep >= 1)]
    while small and large:
        less, more = small.pop(), large.pop()
        other[less] = more
        keep[more] -= 1 - keep[less]
        (small if keep[more] < 1 else large).append(more)
    keep[[*small, *large]] = 1.0
    return keep, other


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The requests of a trace."""

    schedule: Schedule

    @property
    def seconds(self) -> float:
        """The length, to the end of the last minute."""
        return float(np.ceil((self.schedule.at[-1] + 1e-9) / _MINUTE_S) * _MINUTE_S)

    @property
    def count(self) -> int:
        """The number of requests."""
        return len(self.schedule.at)

    @property
    def warm_up(self) -> int:
        """None: the first request counts."""
        return 0

    def __str__(self) -> str:
        asked = len(np.unique(self.schedule.model))
        return f"{self.count:,} requests to {asked:,} models in {self.seconds / 3600:.1f} h"

    def rates(self) -> Array:
        """Return the requests per second of each model, in the mean."""
        found: Array = np.bincount(self.schedule.model, minlength=len(self.schedule.models)) / self.seconds
        return found

    def busiest(self) -> float:
        """Return the requests per second of the busiest minute."""
        return float(np.bincount((self.schedule.at // _MINUTE_S).astype(int)).max() / _MINUTE_S)

    def parts(self) -> Iterator[tuple[Array, Array]]:
        """Yield moments and models."""
        at, model = self.schedule.at, self.schedule.model
        for start in range(0, len(at), _PART):
            yield at[start : start + _PART], model[start : start + _PART]


def read_counts(path: Path, models: Sequence[str], *, seed: int) -> Schedule:
    """Read requests per minute: a CSV file with a row for each model, and a column for each minute.

    The columns of minutes are those whose titles begin with a number, such as `1` or `1_minute`. Within a
    minute, the requests of a model come at random.

    Raises:
        FleetError: It is not such a file, or has more rows than there are models.
    """
    with path.open(newline="") as file:
        rows = csv.reader(file)
        minutes = [index for index, title in enumerate(next(rows, ())) if title[:1].isdecimal()]
        try:
            counts = np.array([[int(row[index]) for index in minutes] for row in rows], np.int64)
        except (ValueError, IndexError, OverflowError, csv.Error) as error:
            where, fix = f"{path}, line {rows.line_num}", "give a number of requests for each minute"
            raise REQUESTS.error(what=str(error), where=where, fix=fix) from None
    if not counts.size or counts.min() < 0 or not counts.sum():
        raise REQUESTS.error(
            what="there are no requests, or negative ones",
            where=str(path),
            fix="add rows of requests per minute",
        )
    if counts.sum(dtype=float) > MOST:
        what, fix = f"there are more than {MOST:,} requests", "give fewer minutes"
        raise REQUESTS.error(what=what, where=str(path), fix=fix)
    if len(counts) > len(models):
        what = f"there are {len(counts):,} rows, and {len(models):,} models"
        raise REQUESTS.error(what=what, where=str(path), fix="give as many models with --models")
    model, minute = (each.repeat(counts.ravel()) for each in np.indices(counts.shape).reshape(2, -1))
    at = (minute + np.random.default_rng(seed).random(len(minute))) * _MINUTE_S
    order = np.argsort(at, kind="stable")
    return Schedule(at=at[order], model=model[order].astype(np.int32), models=tuple(models))


def waiting_by_mean_rates(rates: Array, sizes: Sequence[float] | Array, room: float) -> float:
    """Return the share of requests that find their model unloaded, from mean rates alone.

    This is Che's approximation of a cache. It knows nothing of bursts, of the time of a load, or of requests
    that wait for the same one. It stands next to the simulation to show when mean rates mislead.
    """
    asked, size = rates[rates > 0], np.asarray(sizes, float)[rates > 0]
    if size.sum() <= room:
        return 0.0
    low, high = 0.0, 1.0
    while (size * -np.expm1(-asked * high)).sum() < room:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        if (size * -np.expm1(-asked * middle)).sum() < room:
            low = middle
        else:
            high = middle
    return float((asked * np.exp(-asked * low)).sum() / asked.sum())
