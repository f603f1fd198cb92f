"""The times at which a scheduled action runs: `at(...)`, `rate(...)` and `cron(...)`.

The days L, W and # are refused. Read on 2026-11-23:
https://docs.aws.amazon.com/autoscaling/application/userguide/scheduled-scaling-using-cron-expressions.html
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

_FORM = re.compile(r"(at|rate|cron)\((.*)\)")
_RATE = re.compile(r"(\d+) (minute|hour|day)s?")
_UNITS = {"minute": 60, "hour": 3600, "day": 86400}
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_FIELDS = 6
_HORIZON_DAYS = 366 * 5


class ScheduleError(ValueError):
    """A schedule that Application Auto Scaling does not understand."""


def next_time(schedule: str, *, after: datetime, start: datetime, zone: str = "UTC") -> datetime | None:
    """Return the first time of a schedule after a moment; None if there is none within five years."""
    form = _FORM.fullmatch(schedule.strip())
    if form is None:
        raise ScheduleError(schedule)
    kind, text = form.groups()
    if kind == "at":
        moment = _moment(text, zone)
        return moment if moment > after else None
    if kind == "rate":
        return _next_of_rate(text, after, start)
    return next((moment for moment in _crontab(text, after, ZoneInfo(zone)) if moment > after), None)


def _moment(text: str, zone: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=ZoneInfo(zone))
    except ValueError as error:
        raise ScheduleError(text) from error


def _next_of_rate(text: str, after: datetime, start: datetime) -> datetime:
    found = _RATE.fullmatch(text)
    if found is None or not int(found[1]):
        raise ScheduleError(text)
    interval = timedelta(seconds=int(found[1]) * _UNITS[found[2]])
    return start + interval * max(0, (after - start) // interval + 1)


def _crontab(text: str, after: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    """Yield the times of a cron expression, from the day of `after` on."""
    fields = text.split()
    if len(fields) != _FIELDS:
        raise ScheduleError(text)
    minutes, hours = _values(fields[0], 0, 59), _values(fields[1], 0, 23)
    first = after.astimezone(zone).date()
    for day in (first + timedelta(days=number) for number in range(_HORIZON_DAYS)):
        if _on_day(fields[2:], day.year, day.month, day.day):
            for hour in hours:
                for minute in minutes:
                    local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
                    yield local.astimezone(timezone.utc)


def _on_day(fields: Sequence[str], year: int, month: int, day: int) -> bool:
    days, months, weekdays, years = fields
    # Sunday is 1.
    weekday = (calendar.weekday(year, month, day) + 1) % 7 + 1
    return (
        year in _values(years, 1970, 2199)
        and month in _values(months, 1, 12, names=_MONTHS)
        and (days == "?" or day in _values(days, 1, 31))
        and (weekdays == "?" or weekday in _values(weekdays, 1, 7, names=_WEEKDAYS))
    )


def _values(field: str, least: int, most: int, *, names: Sequence[str] = ()) -> list[int]:
    """Return the numbers of a field such as `*`, `0/15`, `MON-FRI` or `1,5`."""
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        low, _, high = span.partition("-")
        try:
            first = least if low == "*" else _number(low, names)
            last = most if low == "*" or (step and not high) else _number(high or low, names)
            numbers = range(first, last + 1, int(step or 1))
        except ValueError as error:
            raise ScheduleError(field) from error
        if not numbers or numbers[0] < least or numbers[-1] > most:
            raise ScheduleError(field)
        found.update(numbers)
    return sorted(found)


def _number(text: str, names: Sequence[str]) -> int:
    return names.index(text.upper()) + 1 if text.upper() in names else int(text)
