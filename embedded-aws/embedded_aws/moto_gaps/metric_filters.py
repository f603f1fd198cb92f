"""Metric filters of CloudWatch Logs, which moto keeps, but does not apply.

Events have the wall clock's time, and metrics that of `embedded_aws.clock`.

A default value is published for each minute with events of which none matches. Read on 2026-11-23:
https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/MonitoringLogData.html
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from moto.cloudwatch.models import cloudwatch_backends
from moto.logs.models import LogGroup, logs_backends

from embedded_aws import clock
from embedded_aws.filter_pattern import json_of, matcher, selected
from embedded_aws.moto_gaps.metrics import is_value

_MINUTE_MS = 60_000


def count(group: LogGroup, events: Sequence[Mapping[str, Any]]) -> None:
    """Publish the metrics of a group's filters for new events.

    Args:
        group: The log group.
        events: The events as PutLogEvents takes them.
    """
    logs: Any = logs_backends[group.account_id][group.region]
    cloudwatch: Any = cloudwatch_backends[group.account_id][group.region]
    for metric_filter in logs.filters.get_matching_filters(log_group_name=group.name):
        for transformation in metric_filter["metricTransformations"]:
            data = list(_data(metric_filter["filterPattern"], transformation, events))
            if data:
                cloudwatch.put_metric_data(transformation["metricNamespace"], data)


def _data(
    pattern: str, transformation: Mapping[str, Any], events: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the data points of events: one for each that matches, or the default of a minute."""
    matches = matcher(pattern)
    matched, quiet = set[int](), dict[int, int]()
    for event in events:
        minute = event["timestamp"] // _MINUTE_MS
        value = _value(transformation, str(event["message"])) if matches(str(event["message"])) else None
        if value is None:
            quiet[minute] = event["timestamp"]
        else:
            matched.add(minute)
            dimensions = list(_dimensions(transformation, str(event["message"])))
            yield _datum(transformation, value, event["timestamp"], dimensions)
    default = transformation.get("defaultValue")
    if default is not None:
        for minute, moment in quiet.items():
            if minute not in matched:
                yield _datum(transformation, float(default), moment, [])


def _value(transformation: Mapping[str, Any], message: str) -> float | None:
    """Return the value of a matching event: a number, or what a selector finds; None if that is no number."""
    given = str(transformation["metricValue"])
    found = selected(json_of(message), given) if given.startswith("$") else given
    try:
        value = float(found)
    except (TypeError, ValueError):
        return None
    return value if is_value(value) else None


def _dimensions(transformation: Mapping[str, Any], message: str) -> Iterator[dict[str, str]]:
    for name, selector in (transformation.get("dimensions") or {}).items():
        found = selected(json_of(message), selector)
        if found is not None:
            yield {"Name": name, "Value": str(found)}


def _datum(
    transformation: Mapping[str, Any], value: float, moment: int, dimensions: list[dict[str, str]]
) -> dict[str, Any]:
    ahead = round(clock.current().time() - time.time(), 1)
    return {
        "MetricName": transformation["metricName"],
        "Value": value,
        "Unit": transformation.get("unit") or "None",
        "Timestamp": datetime.fromtimestamp(moment / 1000 + ahead, tz=timezone.utc),
        "Dimensions": dimensions,
    }
