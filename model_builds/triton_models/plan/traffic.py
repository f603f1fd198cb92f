"""The requests of a plan, in parts: moments and models."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.encoding import Array
from triton_models.base.errors import Problem, raise_if_any
from triton_models.load.schedule import MOST, Schedule, csv_rows
from triton_models.plan.compiled import draw_requests

REQUESTS = Check(id="plan-requests", source=FROM_ARGUMENTS)

_PART = 1 << 14  # so that they stay in the cache of a core
_MINUTE_S = 60.0
_NUMBER = re.compile(r"(\d{1,9})(?:\D.*)?", re.ASCII)
_MOST_MISTAKES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """A Poisson process of constant rate, whose first model is the most popular one by Zipf's law."""

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
        """The requests in which models are loaded for the first time, which do not count: a tenth."""
        return self.count // 10

    def __str__(self) -> str:
        how = f"popular by Zipf's law with {self.popularity:g}" if self.popularity else "all equally popular"
        return f"{self.rate:g} requests/s for {self.seconds / 3600:.1f} h, {how}"

    def rates(self) -> Array:
        """Return the requests per second of each model."""
        weights = np.arange(1, self.models + 1, dtype=float) ** -self.popularity
        rates: Array = self.rate * weights / weights.sum()
        return rates

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
    small, large = np.flatnonzero(keep < 1).tolist(), np.flatnonzero(keep >= 1).tolist()
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
        counts = np.bincount(self.schedule.model, minlength=len(self.schedule.models))
        rates: Array = counts / self.seconds
        return rates

    def busiest(self) -> float:
        """Return the requests per second of the busiest minute."""
        return float(np.bincount((self.schedule.at // _MINUTE_S).astype(int)).max() / _MINUTE_S)

    def parts(self) -> Iterator[tuple[Array, Array]]:
        """Yield moments and models."""
        at, model = self.schedule.at, self.schedule.model
        for start in range(0, len(at), _PART):
            yield at[start : start + _PART], model[start : start + _PART]


Traffic: TypeAlias = Steady | Recorded


def read_counts(path: Path, models: Sequence[str], *, seed: int) -> Schedule:
    """Read requests per minute: a CSV file with a row for each model, and a column for each minute.

    The first row has titles. Those of the minutes are numbers in sequence, such as `1` or `1_minute`. An
    empty cell has no requests. Within a minute, the requests of a model come at random.

    Raises:
        FleetError: It is not such a file, or has more rows than there are models.
    """
    counts = _read_counts(path)
    if not counts.size or not counts.sum():
        fix = "add rows of requests per minute"
        raise REQUESTS.error(what="there are no requests", where=str(path), fix=fix)
    if counts.sum(dtype=float) > MOST:
        what, fix = f"there are more than {MOST:,} requests", "give fewer minutes"
        raise REQUESTS.error(what=what, where=str(path), fix=fix)
    if len(counts) > len(models):
        what = f"there are {len(counts):,} rows, and {len(models):,} models"
        raise REQUESTS.error(what=what, where=str(path), fix="give as many models with --models")
    model, minute = np.indices(counts.shape).reshape(2, -1).repeat(counts.ravel(), axis=1)
    at = (minute + np.random.default_rng(seed).random(len(minute))) * _MINUTE_S
    return Schedule.sorted(at, model, models)


def _read_counts(path: Path) -> Array:
    """Return the numbers of a file, with a row for each model; raise all its mistakes as one error."""
    problems: list[Problem] = []
    counts = []
    with csv_rows(path, REQUESTS, fix="name a CSV file of requests per minute") as (rows, where):
        minutes = _minutes(next(rows, []), where=f"{path}, line 1")
        for row in filter(None, rows):
            try:
                counts.append([_count(row[index]) for index in minutes])
            except (ValueError, IndexError):
                problems += _mistakes(row, minutes, where=where())
            if len(problems) > _MOST_MISTAKES:
                break
    raise_if_any(problems)
    return np.array(counts, np.int64)


def _minutes(titles: Sequence[str], *, where: str) -> Mapping[int, str]:
    """Return the titles of the minutes by their places in a row."""
    numbered = {place: title.strip() for place, title in enumerate(titles) if title.strip()[:1].isdecimal()}
    numbers = [_NUMBER.fullmatch(title) for title in numbered.values()]
    sequence = [number and int(number[1]) for number in numbers]
    if sequence and sequence in [list(range(at, at + len(sequence))) for at in (0, 1)]:
        return numbered
    first = ", ".join(repr(title[:40]) for title in titles[:8]) or "nothing"
    raise REQUESTS.error(
        what=f"the first row has no titles of minutes in sequence, but {first}",
        where=where,
        fix="begin the file with a row of titles: model,1,2,3 and so on, a number for each minute",
    )


def _count(cell: str) -> int:
    """Return a number of requests, which may be written as 1.0; none of an empty cell.

    Raises:
        ValueError: It is not a number from 0 to `MOST`.
    """
    text = cell.strip()
    if not text:
        return 0
    number = float(text)
    if not (0 <= number <= MOST and number.is_integer()):
        raise ValueError
    return int(number)


def _mistakes(row: Sequence[str], minutes: Mapping[int, str], *, where: str) -> Iterator[Problem]:
    fix = f"give a number of requests for each minute, from 0 to {MOST:,}"
    if lacking := [title for place, title in minutes.items() if place >= len(row)]:
        what = f"the row ends before the minute {lacking[0]!r}"
        yield REQUESTS.problem(what=what, where=where, fix=fix)
    for place, title in minutes.items():
        try:
            _count(row[place] if place < len(row) else "")
        except ValueError:
            what = f"the minute {title!r} has {row[place].strip()[:40]!r}"
            yield REQUESTS.problem(what=what, where=where, fix=fix)


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
