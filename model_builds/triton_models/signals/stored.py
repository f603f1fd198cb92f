"""The signals of a time, read from all processes: each request is counted once."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError, Problem
from triton_models.repository.objects import Store
from triton_models.repository.s3 import caught, in_parallel
from triton_models.signals.counts import Artifact, Counts, added
from triton_models.signals.report import HOUR_S, MINUTE_S, Period, Report

DAMAGED = Check(id="signals-object", source=FROM_ARGUMENTS)

_LATE_S = 2 * MINUTE_S
"""A minute is written within some seconds of its end: a clock that differs by more is reported."""

_SOON_S = 15 * MINUTE_S
_HOURS_APART = 24  # of more hours, days are listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """What all processes counted.

    Attributes:
        since: The first second, since 1970; a minute that has begun counts from its beginning.
        until: The second after the last one.
        processes: The processes that counted anything.
        lost: The requests that processes counted and could not write.
        missing: The minutes that were counted and are not there, nor their hour.
        ended: The processes that ended without writing their last minute.
        fast: The processes whose clock is ahead of that of S3, with the seconds.
        damaged: The objects that cannot be read.
    """

    since: float
    until: float
    counts: Mapping[Artifact, Counts]
    processes: int = 0
    lost: int = 0
    missing: int = 0
    ended: int = 0
    fast: Mapping[str, float]
    damaged: Sequence[Problem] = ()

    @property
    def seconds(self) -> float:
        """The length of the time."""
        return self.until - self.since

    def doubts(self) -> Iterator[str]:
        """Yield what the figures may lack, in sentences."""
        if self.lost:
            yield f"{self.lost:,} requests were counted and could not be written."
        if self.missing:
            yield f"{self.missing:,} minutes of processes are missing: not written, or deleted since."
        if self.ended:
            yield f"{self.ended:,} processes ended at once: up to a minute of each is missing."
        for process, seconds in self.fast.items():
            yield f"The clock of process {process} is {seconds:,.0f} s fast: set it, for example by NTP."
        for problem in self.damaged:
            yield f"{problem.where}: {problem.what}. {problem.why}."


@dataclass(frozen=True, slots=True)
class _Object:
    name: str
    period: Period
    written: float


def read(store: Store, endpoint: str, *, since: float, until: float | None = None) -> Signals:
    """Read the signals of an endpoint.

    Of each process, an hour is read as one object where there is one, and other minutes one by one.

    Raises:
        FleetError: S3 does not answer, or refuses.
    """
    now = time.time()
    until = now if until is None else until
    since = since // MINUTE_S * MINUTE_S
    listed = list(_listed(store, endpoint, since, until + _SOON_S))
    chosen = list(_chosen(listed, since, until))

    def decoded(each: _Object) -> Report:
        content: bytes = store.read(each.name, lambda body: body.read())[1]
        try:
            return Report.decoded(content, each.period)
        except ValueError as error:
            raise DAMAGED.error(
                what=str(error),
                where=f"{store.url}{each.name}",
                why="the requests that it counts are missing in the figures",
                fix="delete it, or restore an earlier version of it",
            ) from None

    found = in_parallel(caught(decoded), chosen)
    reports = [each for each in found if isinstance(each, Report)]
    damaged = [problem for each in found if isinstance(each, FleetError) for problem in each.problems]
    minutes: dict[str, list[Report]] = defaultdict(list)
    for each in sorted(reports, key=lambda each: each.period.start):
        if each.period.seconds == MINUTE_S:
            minutes[each.period.process].append(each)
    lost: dict[str, int] = defaultdict(int)
    for each in reports:
        lost[each.period.process] = max(lost[each.period.process], each.lost)
    return Signals(
        since=since,
        until=until,
        counts=added(each.counts for each in reports),
        processes=len({each.period.process for each in reports if each.counts}),
        lost=sum(lost.values()),
        missing=sum(_missing(each, since) for each in minutes.values()),
        ended=_ended(listed, minutes, min(now, until + _SOON_S)),
        fast=_fast(listed),
        damaged=damaged,
    )


def _listed(store: Store, endpoint: str, since: float, until: float) -> Iterator[_Object]:
    """Yield the objects of the hours of a time."""
    hours = range(int(since // HOUR_S) * HOUR_S, int(until) + 1, HOUR_S)
    form = "%Y-%m-%d/%H" if len(hours) <= _HOURS_APART else "%Y-%m-%d/"
    prefixes = {datetime.fromtimestamp(each, timezone.utc).strftime(form) for each in hours}
    pages = in_parallel(lambda prefix: list(store.list_objects(f"{endpoint}/{prefix}")), sorted(prefixes))
    for name, item in (entry for page in pages for entry in page):
        period = Period.of_name(name.partition("/")[2])
        if period is not None and period.start + period.seconds > since:
            yield _Object(name, period, item["LastModified"].timestamp())


def _chosen(listed: Sequence[_Object], since: float, until: float) -> Iterator[_Object]:
    """Yield the hours that lie within the time, and the minutes that are in no such hour."""
    periods = [each.period for each in listed]
    hours = {
        (each.process, each.start)
        for each in periods
        if each.seconds == HOUR_S and since <= each.start and each.start + HOUR_S <= until
    }
    for each, period in zip(listed, periods, strict=True):
        if period.start >= until:
            continue
        of_hour = (period.process, period.start // HOUR_S * HOUR_S) in hours
        if of_hour if period.seconds == HOUR_S else not of_hour and period.start >= since:
            yield each


def _missing(minutes: Sequence[Report], since: float) -> int:
    """Return the gaps in the numbers of the minutes of each hour of a process."""
    hours: dict[int, list[int]] = defaultdict(list)
    for each in minutes:
        hours[each.period.start // HOUR_S * HOUR_S].append(each.number)
    firsts = {hour: 0 if hour >= since else min(numbers) for hour, numbers in hours.items()}
    return sum(max(numbers) + 1 - firsts[hour] - len(numbers) for hour, numbers in hours.items())


def _ended(listed: Sequence[_Object], minutes: Mapping[str, Sequence[Report]], by: float) -> int:
    """Return the number of processes whose last minute says that more was to come, and nothing came."""
    ends: dict[str, int] = defaultdict(int)
    for each in listed:
        ends[each.period.process] = max(ends[each.period.process], each.period.start + each.period.seconds)
    last = {process: reports[-1] for process, reports in minutes.items()}
    return sum(
        not each.idle and ends[process] == each.period.start + MINUTE_S and ends[process] + _SOON_S <= by
        for process, each in last.items()
    )


def _fast(listed: Sequence[_Object]) -> Mapping[str, float]:
    """Return the seconds by which the clocks of processes are fast."""
    found: dict[str, float] = {}
    for each in listed:
        ahead = each.period.start + each.period.seconds - each.written
        if each.period.seconds == MINUTE_S and ahead > _LATE_S:
            found[each.period.process] = max(found.get(each.period.process, 0.0), ahead)
    return found
