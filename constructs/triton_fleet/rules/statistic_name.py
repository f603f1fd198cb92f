"""A statistic is one that CloudWatch supports."""

from __future__ import annotations

import re

from triton_models.base.errors import Problem

RULE = "statistic-name"
# Read on 2026-11-22, with the API models in botocore 1.44.5: Application Auto Scaling takes any statistic of
# CloudWatch in a query of a customized metric (TargetTrackingMetricStat), and CloudWatch writes its grammar
# down as AnomalyDetectorMetricStat. The o, the u and the endings _E, _L and _H in that are explained nowhere.
SOURCES = (
    "https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Statistics-definitions.html",
    "https://docs.aws.amazon.com/autoscaling/application/APIReference/API_TargetTrackingMetricStat.html",
)

_NAMES = ("Average", "Minimum", "Maximum", "Sum", "SampleCount", "IQM")
_DECIMALS = r"(\.\d{1,10})?"
_BELOW_HUNDRED = rf"\d{{1,2}}{_DECIMALS}"
_PERCENT = rf"({_BELOW_HUNDRED}|100(\.0{{1,10}})?)%"
_NUMBER = rf"\d+{_DECIMALS}([Ee][+-]?\d+)?"


def _between(bound: str) -> str:
    """Two bounds, of which one may be left out."""
    return rf"\(({bound}:({bound})?|:{bound})\)"


_STATISTIC = re.compile(
    "|".join(
        (
            *_NAMES,
            rf"(p|tm|wm|tc|ts)({_BELOW_HUNDRED}|100)",
            rf"(TM|WM|TC|TS){_between(_PERCENT)}",
            rf"(PR|TM|WM|TC|TS){_between(_NUMBER)}",
        )
    ),
    re.ASCII,
)


def statistic_name(statistic: str, *, where: str) -> Problem | None:
    """The problem with following a metric by this statistic; a token is not known yet."""
    if _STATISTIC.fullmatch(statistic):
        return None
    return Problem(
        what=f"the statistic is {statistic[:40]!a}",
        where=where,
        expected=f"{', '.join(_NAMES)}; a percentile such as p90 or p99.9, and likewise tm, wm, tc or ts; or "
        "a range such as TM(10%:90%), also of WM, TC and TS, or PR(:300)",
        why="CloudWatch does not support this statistic",
        fix="write Average, or a percentile such as p90",
        rule=RULE,
    )
