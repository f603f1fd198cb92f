"""The statistics of samples: Average, p99, TM(10%:90%) and the others.

Definitions: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Statistics-definitions.html
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping

from embedded_aws.cloudwatch.series import Samples

_SIMPLE = ("SampleCount", "Average", "Sum", "Minimum", "Maximum")
_NUMBER = r"\d+(?:\.\d{1,10})?"
_ONE = re.compile(rf"(p|tm|tc|ts|wm)({_NUMBER})")
_RANGE = re.compile(rf"(PR|TM|TC|TS|WM)\((?:({_NUMBER})(%?))?:(?:({_NUMBER})(%?))?\)")
_WHOLE = 100.0

# A kind of statistic, with the values that it covers: above a lower and up to an upper bound, or percentage.
_Ranged = tuple[str, float, float, bool]


def is_statistic(name: str) -> bool:
    return name in _SIMPLE or _ranged(name) is not None


def _ranged(name: str) -> _Ranged | None:
    if name == "IQM":
        return "TM", 25.0, 75.0, True
    if one := _ONE.fullmatch(name):
        return (one[1].upper(), 0.0, float(one[2]), True) if float(one[2]) <= _WHOLE else None
    found = _RANGE.fullmatch(name)
    if found is None or not (found[2] or found[4]) or (found[1] == "PR" and "%" in name):
        return None
    percent = "%" in name
    least, most = (0.0, _WHOLE) if percent else (-math.inf, math.inf)
    return found[1], float(found[2] or least), float(found[4] or most), percent


def statistic(samples: Samples, name: str) -> float | None:
    """Return a statistic of samples; None if they do not allow it.

    Statistics other than the five simple ones need the values: summaries count only if all their values are
    equal, and no value may be negative.
    """
    if name in _SIMPLE:
        return _simple(samples, name)
    values, ranged = _known_values(samples), _ranged(name)
    if ranged is None or not values or min(values) < 0:
        return None
    kind, least, most, percent = ranged
    if kind == "P":
        return _percentile(values, most)
    every = sum(values.values())
    if kind == "WM":
        if percent:
            least, most = _percentile(values, least), _percentile(values, most)
        return sum(min(max(value, least), most) * times for value, times in values.items()) / every
    within = _within(values, least, most, percent=percent)
    count, total = sum(within.values()), sum(value * times for value, times in within.items())
    if kind == "PR":
        return _WHOLE * count / every
    return {"TC": count, "TS": total, "TM": total / count if count else None}[kind]


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


def _within(values: Mapping[float, float], least: float, most: float, *, percent: bool) -> dict[float, float]:
    if not percent:
        return {value: times for value, times in values.items() if least < value <= most}
    total = sum(values.values())
    low, high = total * least / _WHOLE, total * most / _WHOLE
    found, passed = {}, 0.0
    for value in sorted(values):
        times = min(passed + values[value], high) - max(passed, low)
        passed += values[value]
        if times > 0:
            found[value] = times
    return found
