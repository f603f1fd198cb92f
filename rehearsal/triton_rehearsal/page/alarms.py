"""The alarms of an account, with their states, conditions and runbooks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from triton_rehearsal.page.markdown import html_of

KINDS = ("MetricAlarm", "CompositeAlarm")

# A rule names alarms by ARN. The name at the end of the ARN is enough.
_ARN_BEFORE_NAME = re.compile(r"arn:[^\"]*:alarm:")
# https://docs.aws.amazon.com/autoscaling/application/userguide/target-tracking-scaling-policy-overview.html
_OF_A_POLICY = "TargetTracking-"
_COMPARISONS = {
    "GreaterThanThreshold": ">",
    "GreaterThanOrEqualToThreshold": ">=",
    "LessThanThreshold": "<",
    "LessThanOrEqualToThreshold": "<=",
}


def described(cloudwatch: Any) -> list[dict[str, Any]]:
    """Return all alarms as DescribeAlarms shows them, metric alarms first."""
    pages = list(cloudwatch.get_paginator("describe_alarms").paginate(AlarmTypes=list(KINDS)))
    return [alarm for kind in KINDS for page in pages for alarm in page[f"{kind}s"]]


def of_policy(name: str) -> bool:
    """Return True if Application Auto Scaling made an alarm, for a target tracking policy."""
    return name.startswith(_OF_A_POLICY)


def condition(alarm: Mapping[str, Any]) -> str:
    """Return the condition of an alarm, in CloudWatch's own words."""
    if "AlarmRule" in alarm:
        return _ARN_BEFORE_NAME.sub("", alarm["AlarmRule"])
    subject = alarm.get("MetricName") or returned_expression(alarm["Metrics"])
    comparison = _COMPARISONS.get(alarm["ComparisonOperator"], alarm["ComparisonOperator"])
    return f"{subject} {comparison} {alarm['Threshold']:g} for {alarm['EvaluationPeriods']} periods"


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
