"""The statistics of samples: Average, p99, TM(10%:90%) and the others.

Definitions: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Statistics-definitions.html
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from embedded_aws.cloudwatch.series import Samples

_SIMPLE = ("SampleCount", "Average", "Sum", "Minimum", "Maximum")
_NUMBER = r"\d+(?:\.\d{1,10})?"
_ONE = re.compile(rf"(p|tm|tc|ts|wm)({_NUMBER})")
_RANGE = re.compile(rf"(PR|TM|TC|TS|WM)\((?:({_NUMBER})(%?))?:(?:({_NUMBER})(%?))?\)")
_WHOLE = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    """The values that a statistic covers, above the lower bound and up to the upper one."""

    least: float
    most: float
    percent: bool


def is_statistic(name: str) -> bool:
    """Return True if CloudWatch has a statistic of this name."""
    if one := _ONE.fullmatch(name):
        return float(one[2]) <= _WHOLE
    found = _RANGE.fullmatch(name)
    if found and (found[2] or found[4]):
        return not (found[1] == "PR" and "%" in name)
    return name in (*_SIMPLE, "IQM")


def statistic(samples: Samples, name: str) -> float | None:
    """Return a statistic of samples; None if they do not allow it.

    Statistics other than the five simple ones need the values: summaries count only if all their values are
    equal, and no value may be negative.
    """
    if name in _SIMPLE:
        return _simple(samples, name)
    values = _known_values(samples)
    if not values or min(values) < 0:
        return None
    if one := _ONE.fullmatch(name):
        kind, range_ = one[1].upper(), _Range(least=0.0, most=float(one[2]), percent=True)
        return _percentile(values, float(one[2])) if kind == "P" else _RANGED[kind](values, range_)
    if name == "IQM":
        return _RANGED["TM"](values, _Range(least=25.0, most=75.0, percent=True))
    found = _RANGE.fullmatch(name)
    if found is None:
        return None
    kind, least, in_percent, most, most_in_percent = found.groups()
    percent = bool(in_percent or most_in_percent)
    upper = _WHOLE if percent else math.inf
    lower = 0.0 if percent else -math.inf
    range_ = _Range(
        least=float(least) if least else lower, most=float(most) if most else upper, percent=percent
    )
    return _RANGED[kind](values, range_)


def _simple(samples: Samples, name: str) -> float | None:
    count = samples.values.total() + sum(each.count for each in samples.sets)
    if not count:
        return None
    total = sum(value * times for value, times in samples.values.items())
    total += sum(each.total for each in samples.sets)
    found = {
        "SampleCount": float(count),
        "Sum": total,
        "Average": total / count,
        "Minimum": min([*samples.values, *(each.least for each in samples.sets)]),
        "Maximum": max([*samples.values, *(each.most for each in samples.sets)]),
    }
    return found[name]


def _known_values(samples: Samples) -> Counter[float]:
    values = samples.values.copy()
    for each in samples.sets:
        if each.least != each.most:
            return Counter()
        values[each.least] += each.count  # type: ignore[assignment]  # a count may be a fraction
    return values


def _percentile(values: Mapping[float, float], percent: float) -> float:
    """Return the largest value after the highest ones are removed, so many that `percent` remain."""
    rank = sum(values.values()) * percent / _WHOLE
    passed = 0.0
    for value in sorted(values):
        passed += values[value]
        if passed >= rank:
            return value
    return max(values)


def _within(values: Mapping[float, float], range_: _Range) -> dict[float, float]:
    """Return how often each value occurs within the range."""
    if not range_.percent:
        return {value: times for value, times in values.items() if range_.least < value <= range_.most}
    total = sum(values.values())
    low, high = total * range_.least / _WHOLE, total * range_.most / _WHOLE
    found, passed = {}, 0.0
    for value in sorted(values):
        times = min(passed + values[value], high) - max(passed, low)
        passed += values[value]
        if times > 0:
            found[value] = times
    return found


def _trimmed_count(values: Mapping[float, float], range_: _Range) -> float:
    return sum(_within(values, range_).values())


def _trimmed_sum(values: Mapping[float, float], range_: _Range) -> float:
    return sum(value * times for value, times in _within(values, range_).items())


def _trimmed_mean(values: Mapping[float, float], range_: _Range) -> float | None:
    count = _trimmed_count(values, range_)
    return _trimmed_sum(values, range_) / count if count else None


def _winsorized_mean(values: Mapping[float, float], range_: _Range) -> float | None:
    least, most = range_.least, range_.most
    if range_.percent:
        least, most = _percentile(values, least), _percentile(values, most)
    count = sum(values.values())
    return sum(min(max(value, least), most) * times for value, times in values.items()) / count


def _percentile_rank(values: Mapping[float, float], range_: _Range) -> float:
    return _WHOLE * _trimmed_count(values, range_) / sum(values.values())


_RANGED: Mapping[str, Callable[[Mapping[float, float], _Range], float | None]] = {
    "TM": _trimmed_mean,
    "TC": _trimmed_count,
    "TS": _trimmed_sum,
    "WM": _winsorized_mean,
    "PR": _percentile_rank,
}
