"""The alarms of an account, with their states, conditions and runbooks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from triton_models.base.alarm_condition import SIGNS, alarm_condition
from triton_rehearsal.hosting.metrics import METRICS
from triton_rehearsal.page.report import html_of

KINDS = ("MetricAlarm", "CompositeAlarm")

# A rule names alarms by ARN. The name at the end of the ARN is enough.
_ARN_BEFORE_NAME = re.compile(r"arn:[^\"]*:alarm:")
# https://docs.aws.amazon.com/autoscaling/application/userguide/target-tracking-scaling-policy-overview.html
_OF_A_POLICY = "TargetTracking-"
_UNITS = {"Percent": "%", "Seconds": "s", "Milliseconds": "ms", "Microseconds": "µs"}
_MINUTE_S = 60


def described(cloudwatch: Any) -> list[dict[str, Any]]:
    """Return all alarms as DescribeAlarms shows them, by name."""
    pages = list(cloudwatch.get_paginator("describe_alarms").paginate(AlarmTypes=list(KINDS)))
    found = [alarm for kind in KINDS for page in pages for alarm in page[f"{kind}s"]]
    return sorted(found, key=lambda alarm: str(alarm["AlarmName"]))


def of_policy(name: str) -> bool:
    """Return True if Application Auto Scaling made an alarm, for a target tracking policy."""
    return name.startswith(_OF_A_POLICY)


def condition(alarm: Mapping[str, Any]) -> str:
    """Return the condition of an alarm; of a composite one its rule."""
    if "AlarmRule" in alarm:
        return _ARN_BEFORE_NAME.sub("", alarm["AlarmRule"])
    periods = alarm["EvaluationPeriods"]
    return alarm_condition(
        returned_expression(alarm["Metrics"]) if alarm.get("Metrics") else _name(alarm),
        sign=SIGNS.get(alarm["ComparisonOperator"], alarm["ComparisonOperator"]),
        # An alarm on a band has the id of its band instead.
        threshold=f"{alarm['Threshold']:g}" if "Threshold" in alarm else alarm["ThresholdMetricId"],
        datapoints=alarm.get("DatapointsToAlarm", periods),
        periods=periods,
        period_s=_period_s(alarm),
    )


def _name(alarm: Mapping[str, Any]) -> str:
    metric, statistic = alarm["MetricName"], alarm.get("Statistic") or alarm.get("ExtendedStatistic")
    known = METRICS[metric].unit if metric in METRICS and statistic != "SampleCount" else ""
    unit = _UNITS.get(alarm.get("Unit", known))
    return f"{metric}, {unit}" if unit else metric


def _period_s(alarm: Mapping[str, Any]) -> int:
    """Return the period of an alarm, in seconds; with metric math that of its metrics."""
    queries = alarm.get("Metrics") or [alarm]
    periods = [query.get("MetricStat", query).get("Period") for query in queries]
    return max((period for period in periods if period), default=_MINUTE_S)


def returned_expression(metrics: list[dict[str, Any]]) -> str:
    """Return the name of the result of metric math: its label, its expression or its statistic."""
    returned = next(metric for metric in metrics if metric.get("ReturnData", True))
    return str(returned.get("Label") or returned.get("Expression") or returned["MetricStat"]["Stat"])


def read(cloudwatch: Any) -> Iterator[dict[str, Any]]:
    """Yield each alarm for the page. The description of an alarm is its runbook."""
    for alarm in described(cloudwatch):
        yield {
            "name": alarm["AlarmName"],
            "arn": alarm["AlarmArn"],
            "state": alarm["StateValue"],
            "since": alarm["StateTransitionedTimestamp"].timestamp(),
            "reason": alarm["StateReason"],
            "condition": condition(alarm),
            "runbook": html_of(alarm.get("AlarmDescription", "")),
            "of_policy": of_policy(alarm["AlarmName"]),
        }
