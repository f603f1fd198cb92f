"""The moments of all requests and their models, computed before the first one is sent."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.encoding import Array
from triton_models.base.errors import FleetError
from triton_models.base.suggest import did_you_mean

TRACE = Check(id="load-trace", source=FROM_ARGUMENTS)
TRAFFIC = Check(id="load-traffic", source=FROM_ARGUMENTS)

MOST = 50_000_000
"""The most requests that are kept in memory."""

_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Random requests, from which a schedule is computed.

    Attributes:
        rates: The requests per second of each step.
        seconds: The length of each step.
        burstiness: The coefficient of variation of the gaps between requests: 0 sends at even intervals, 1 is
            a Poisson process, and more makes bursts, with gaps of a gamma distribution.
        popularity: The exponent of Zipf's law over the models, the first one most: 0 for all equally.
        present_s: The mean times for which a model gets requests, and none; None is all the time.
    """

    rates: tuple[float, ...]
    seconds: float
    burstiness: float = 1.0
    popularity: float = 0.0
    present_s: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The requests of a run, in order: seconds from the beginning, and indices in `models`."""

    at: Array
    model: Array
    models: tuple[str, ...]

    @classmethod
    def of(cls, requests: Iterable[tuple[float, int]], models: Sequence[str]) -> Schedule:
        """Return it from moments and numbers of models, which count from 1, in any order."""
        pairs = list(requests)
        number = np.array([number for _, number in pairs], np.int32)
        return cls.sorted(np.array([at for at, _ in pairs]), number - 1, models)

    @classmethod
    def sorted(cls, at: Array, model: Array, models: Sequence[str]) -> Schedule:
        """Return it from moments and indices of models in any order."""
        order = np.argsort(at, kind="stable")
        return cls(at=at[order], model=model[order].astype(np.int32), models=tuple(models))

    def until(self, seconds: float) -> Schedule:
        """Return the part of it before a moment."""
        kept = self.at < seconds
        return Schedule(at=self.at[kept], model=self.model[kept], models=self.models)

    def write(self, path: Path) -> None:
        """Write it as a trace, which `read` and scenarios of rehearsals read."""
        with path.open("w", newline="") as file:
            file.write("seconds,model\n")
            file.writelines(
                f"{at:.6f},{model + 1}\n"
                for at, model in zip(self.at.tolist(), self.model.tolist(), strict=True)
            )


def scheduled(traffic: Traffic, models: Sequence[str], *, seed: int) -> Schedule:
    """Return the schedule of random traffic. The same seed gives the same one.

    Raises:
        FleetError: It has no requests, or too many for memory.
    """
    count = sum(traffic.rates) * traffic.seconds
    if not 1 <= count <= MOST:
        raise TRAFFIC.error(
            what=f"the traffic has {count:.3g} requests",
            where="--rate and --for",
            fix=f"ask for 1 to {MOST:,}",
        )
    chance = np.random.default_rng(seed)
    weights = np.arange(1, len(models) + 1, dtype=float) ** -traffic.popularity
    weights /= weights.sum()
    if traffic.present_s is None:
        at = _arrivals(traffic, 1.0, chance)
        model = chance.choice(len(models), size=len(at), p=weights)
    else:
        parts = [_present(_arrivals(traffic, share, chance), traffic, chance) for share in weights]
        at = np.concatenate(parts)
        model = np.repeat(np.arange(len(models)), [len(part) for part in parts])
    if not len(at):
        fix = "send more, or longer"
        raise TRAFFIC.error(what="by chance, there are no requests", where="--rate and --for", fix=fix)
    return Schedule.sorted(at, model, models)


def _arrivals(traffic: Traffic, share: float, chance: np.random.Generator) -> Array:
    """Return the moments of a share of the requests, step by step."""
    steps = [_step(rate * share, traffic, chance) for rate in traffic.rates]
    return np.concatenate([number * traffic.seconds + step for number, step in enumerate(steps)])


def _step(rate: float, traffic: Traffic, chance: np.random.Generator) -> Array:
    if traffic.burstiness == 0:
        return (np.arange(round(rate * traffic.seconds)) + 0.5) / rate if rate else np.empty(0)
    shape = 1 / traffic.burstiness**2
    moments, last = [], -chance.gamma(shape, 1 / (rate * shape)) * chance.random()
    while last < traffic.seconds:
        gaps = chance.gamma(shape, 1 / (rate * shape), size=max(64, int(rate * traffic.seconds)))
        moments.append(last + np.cumsum(gaps))
        last = moments[-1][-1]
    at = np.concatenate(moments)
    return at[(at >= 0) & (at < traffic.seconds)]


def _present(at: Array, traffic: Traffic, chance: np.random.Generator) -> Array:
    """Move the requests of a model into the times for which it is there, which have as many in all."""
    assert traffic.present_s is not None  # noqa: S101  it was asked
    here_s, away_s = traffic.present_s
    length_s = traffic.seconds * len(traffic.rates)
    edges, now = [], -chance.exponential(here_s + away_s)
    while now < length_s:
        end = now + chance.exponential(here_s)
        if end > max(now, 0.0):
            edges.append((max(now, 0.0), min(end, length_s)))
        now = end + chance.exponential(away_s)
    if not edges:
        return np.empty(0)
    starts, ends = np.array(edges).T
    before = np.concatenate([[0.0], np.cumsum(ends - starts)])
    inside = at * before[-1] / length_s
    part = np.minimum(np.searchsorted(before, inside, side="right") - 1, len(starts) - 1)
    moved: Array = starts[part] + inside - before[part]
    return moved


def read(
    path: Path,
    models: Sequence[str],
    *,
    most: int = MOST,
    longest_s: float = _DAY_S,
    named: bool = True,
    quoted: bool = True,
) -> Schedule:
    """Read a trace: a CSV file with the columns `seconds`, in order, and `model`, a name or a number from 1.

    If the models are not `named`, other names of a trace stand for them in the order of first requests.
    An error shows only a `quoted` file's content.

    Raises:
        FleetError: It is not such a file, or has more requests, later ones, or other models.
    """
    known = {str(number): number for number in range(1, len(models) + 1)}
    known.update({name: number for number, name in enumerate(models, start=1)})
    seen: dict[str, int] = {}
    with csv_rows(path, TRACE, fix="name a trace, seconds,model") as (rows, where):
        columns = _columns(next(rows, []), str(path), quoted=quoted)
        names = known if named else None
        timed = _rows(rows, columns, seen, longest_s=longest_s, where=where, known=names)
        requests = list(itertools.islice(timed, most + 1))
    if not requests:
        raise _no_requests(str(path))
    if len(requests) > most:
        fix = "send a part of it"
        raise TRACE.error(what=f"the trace has more than {most:,} requests", where=str(path), fix=fix)
    numbers = [known[name] for name in seen if name in known]
    if len(numbers) < len(seen):
        numbers = in_order(TRACE, seen, len(models), where=str(path))
    return Schedule.of(((at, numbers[place]) for at, place in requests), models)


@contextmanager
def csv_rows(
    path: Path, check: Check, *, fix: str
) -> Iterator[tuple[Iterator[list[str]], Callable[[], str]]]:
    """Open a CSV file, as its rows and the place of the last one.

    Raises:
        FleetError: There is no such file, or it is not CSV in UTF-8.
    """
    if not path.is_file():
        raise check.error(what="there is no such file", where=str(path), fix=fix)
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file)
        try:
            yield rows, lambda: f"{path}, line {rows.line_num}"
        except (UnicodeError, csv.Error) as error:
            where = f"{path}, line {rows.line_num + isinstance(error, UnicodeError)}"
            raise check.error(what=str(error), where=where, fix="write it as CSV in UTF-8") from None


def _no_requests(where: str) -> FleetError:
    return TRACE.error(what="the trace has no requests", where=where, fix="add rows: seconds,model")


def in_order(check: Check, names: Collection[str], count: int, *, where: str) -> list[int]:
    """Return the number of each name, in the order of first requests, for models without names.

    Raises:
        FleetError: There are more names than models.
    """
    if len(names) <= count:
        return list(range(1, len(names) + 1))
    others = ", ".join(itertools.islice(names, count, count + 5))
    raise check.error(
        what=f"--models lacks {len(names) - count:,} of the {len(names):,} models that were asked: {others}",
        where=where,
        fix="add them, or give as many models of a size",
    )


def _columns(titles: Sequence[str], where: str, *, quoted: bool) -> tuple[int, int]:
    """Return the places of the columns of seconds and models, by their titles."""
    places = {title.strip().lower(): place for place, title in enumerate(titles)}
    if not titles:
        raise _no_requests(where)
    if "seconds" in places and "model" in places:
        return places["seconds"], places["model"]
    lacking = " and ".join(name for name in ("seconds", "model") if name not in places)
    first = ", ".join(repr(title[:40]) for title in titles[:8])
    raise TRACE.error(
        what=f"there is no column {lacking}{f': the first row has {first}' if quoted else ''}",
        where=f"{where}, line 1",
        fix="begin the file with a row of titles, seconds,model, separated by commas",
    )


def _rows(
    rows: Iterator[list[str]],
    columns: tuple[int, int],
    seen: dict[str, int],
    *,
    longest_s: float,
    where: Callable[[], str],
    known: Mapping[str, int] | None,
) -> Iterator[tuple[float, int]]:
    """Yield the seconds of each request and the place of its model in `seen`, to which it adds.

    It refuses a model that is not in `known`, at its first request.
    """
    before = 0.0
    for row in filter(None, rows):
        try:
            at, name = float(row[columns[0]]), row[columns[1]].strip()
        except (IndexError, ValueError):
            what = "there are no seconds and no model"
            raise TRACE.error(what=what, where=where(), fix="give a number of seconds and a model") from None
        if not before <= at <= longest_s:
            days = longest_s / _DAY_S
            limit = "a day" if days == 1 else f"{days:g} days"
            raise TRACE.error(
                what=f"{at:g} s is out of order" if at < before else f"{at:g} s is longer than {limit}",
                where=where(),
                fix="sort the rows by seconds, which count from the beginning",
            )
        before = at
        if known is not None and name not in seen and name not in known:
            count = max(known.values())
            raise TRACE.error(
                what=f"{name!r} is not one of the {count} models of the run",
                where=where(),
                fix=did_you_mean(name, known, otherwise=f"name a model, or its number from 1 to {count}"),
            )
        yield at, seen.setdefault(name, len(seen))
