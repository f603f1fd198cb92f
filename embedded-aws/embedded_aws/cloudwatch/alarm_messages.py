"""CloudWatch's messages about an alarm: to topics, functions and EventBridge, and in its history.

Read on 2026-11-23, below https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/:
Notify_Users_Alarm_Changes.html, alarms-and-actions-Lambda.html and cloudwatch-and-eventbridge.html.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from embedded_aws.cloudwatch.alarm_data import queries_of, stamp
from embedded_aws.cloudwatch.alarms import Alarm, Change, Status

_LISTS = ("OKActions", "AlarmActions", "InsufficientDataActions")


def subject(change: Change, region: str) -> str:
    return f'{change.after.value}: "{change.alarm.name}" in {region}'


def message(change: Change, *, account: str, region: str) -> dict[str, Any]:
    alarm, settings = change.alarm, change.alarm.settings
    text = {
        "AlarmName": alarm.name,
        "AlarmDescription": settings.get("AlarmDescription"),
        "AWSAccountId": account,
        "AlarmConfigurationUpdatedTimestamp": stamp(alarm.configured),
        "NewStateValue": change.after.value,
        "NewStateReason": change.after.reason,
        "StateChangeTime": stamp(change.after.at),
        "Region": region,
        "AlarmArn": alarm.alarm_arn,
        "OldStateValue": change.before.value,
        **{name: list(settings.get(name) or ()) for name in _LISTS},
    }
    if alarm.kind == "CompositeAlarm":
        return {**text, "AlarmRule": settings["AlarmRule"]}
    return {**text, "Trigger": _trigger(settings)}


def _trigger(settings: Mapping[str, Any]) -> dict[str, Any]:
    common = {
        "EvaluationPeriods": int(settings["EvaluationPeriods"]),
        "DatapointsToAlarm": int(settings.get("DatapointsToAlarm") or settings["EvaluationPeriods"]),
        "ComparisonOperator": settings["ComparisonOperator"],
        "Threshold": float(settings["Threshold"]),
        "TreatMissingData": settings.get("TreatMissingData") or "missing",
        "EvaluateLowSampleCountPercentile": settings.get("EvaluateLowSampleCountPercentile") or "",
    }
    if settings.get("Metrics"):
        return {**common, "Metrics": [_query(query) for query in queries_of(settings)]}
    simple = settings.get("Statistic")
    statistic = (
        {"StatisticType": "Statistic", "Statistic": str(simple).upper()}
        if simple
        else {"StatisticType": "ExtendedStatistic", "ExtendedStatistic": settings.get("ExtendedStatistic")}
    )
    return {
        "MetricName": settings["MetricName"],
        "Namespace": settings["Namespace"],
        **statistic,
        "Unit": settings.get("Unit"),
        "Dimensions": _dimensions(settings.get("Dimensions") or ()),
        "Period": int(settings["Period"]),
        **common,
    }


def _query(query: Mapping[str, Any]) -> dict[str, Any]:
    if (stat := query.get("MetricStat")) is None:
        return dict(query)
    metric = {**stat["Metric"], "Dimensions": _dimensions(stat["Metric"].get("Dimensions") or ())}
    return {**query, "MetricStat": {**stat, "Metric": metric}}


def _dimensions(dimensions: Any) -> list[dict[str, str]]:
    return [{"value": each["Value"], "name": each["Name"]} for each in dimensions]


def event_detail(change: Change) -> dict[str, Any]:
    """Return the detail of the event of a change, which is also the `alarmData` of a function's event."""
    return {
        "alarmName": change.alarm.name,
        "state": _state(change.after),
        "previousState": _state(change.before),
        "configuration": _configuration(change.alarm.settings),
    }


def _state(status: Status) -> dict[str, str]:
    known = {"value": status.value, "reason": status.reason, "timestamp": stamp(status.at)}
    return {**known, "reasonData": status.data} if status.data else known


def _configuration(settings: Mapping[str, Any]) -> dict[str, Any]:
    text = {"description": settings["AlarmDescription"]} if settings.get("AlarmDescription") else {}
    if "AlarmRule" in settings:
        return {**text, "alarmRule": settings["AlarmRule"]}
    return {**text, "metrics": [_event_metric(query) for query in queries_of(settings)]}


def _event_metric(query: Mapping[str, Any]) -> dict[str, Any]:
    known = {"id": query["Id"], "returnData": bool(query.get("ReturnData", True))}
    for name in ("Expression", "Label", "Period"):
        if query.get(name) is not None:
            known[name.lower()] = query[name]
    if (stat := query.get("MetricStat")) is not None:
        metric = stat["Metric"]
        dimensions = {each["Name"]: each["Value"] for each in metric.get("Dimensions") or ()}
        named = {"namespace": metric["Namespace"], "name": metric["MetricName"], "dimensions": dimensions}
        known["metricStat"] = {"metric": named, "period": int(stat["Period"]), "stat": stat["Stat"]}
    return known


def function_event(change: Change, *, account: str, region: str) -> dict[str, Any]:
    return {
        "source": "aws.cloudwatch",
        "alarmArn": change.alarm.alarm_arn,
        "accountId": account,
        "time": stamp(change.after.at),
        "region": region,
        "alarmData": event_detail(change),
    }


def history_of_change(change: Change) -> tuple[str, dict[str, Any]]:
    """Return the summary and the data of a StateUpdate in an alarm's history."""
    old, new = _history_state(change.before), _history_state(change.after)
    data = {"version": "1.0", "oldState": old, "newState": new}
    return f"Alarm updated from {change.before.value} to {change.after.value}", data


def _history_state(status: Status) -> dict[str, Any]:
    known: dict[str, Any] = {"stateValue": status.value, "stateReason": status.reason}
    return {**known, "stateReasonData": json.loads(status.data)} if status.data else known


def history_of_configuration(alarm: Alarm, what: str) -> tuple[str, dict[str, Any]]:
    """Return the summary and the data of a ConfigurationUpdate: of a Create, an Update or a Delete."""
    past = {"Create": "created", "Update": "updated", "Delete": "deleted"}[what]
    settings = {f"{name[0].lower()}{name[1:]}": value for name, value in alarm.settings.items()}
    data = {"version": "1.0", "type": what, f"{past}Alarm": {**settings, "alarmArn": alarm.alarm_arn}}
    return f'Alarm "{alarm.name}" {past}', data
