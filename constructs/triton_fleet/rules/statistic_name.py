"""A statistic is one that CloudWatch reckons."""

from __future__ import annotations

import re

from triton_models.errors import Problem

RULE = "statistic-name"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Statistics-definitions.html"

_PERCENTILE = re.compile(r"p(100|\d{1,2})(\.\d{1,10})?")
_NAMES = ("Average", "Minimum", "Maximum", "Sum", "SampleCount")


def statistic_name(statistic: str, *, where: str) -> Problem | None:
    """The problem with following a metric by this statistic; a token is none that is known now."""
    if statistic in _NAMES or _PERCENTILE.fullmatch(statistic):
        return None
    return Problem(
        what=f"the statistic is {statistic[:40]!a}",
        where=where,
        expected=f"{', '.join(_NAMES)}, or a percentile such as p90",
        why="CloudWatch has no other of it, so the policy would never act",
        fix="write Average, or a percentile such as p90",
        rule=RULE,
    )
