"""The actions of alarms: topics, functions, scaling policies, and the events that EventBridge gets.

An action that fails has no other effect than an entry in the alarm's history, as on AWS. The messages were
read on 2026-11-23, below https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/:
Notify_Users_Alarm_Changes.html, alarms-and-actions-Lambda.html and cloudwatch-and-eventbridge.html.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

from moto.sns.models import sns_backends

from embedded_aws.clock import moment
from embedded_aws.cloudwatch.alarm_state import queries_of, stamp
from embedded_aws.cloudwatch.alarms import Alarm, Change, Status
from embedded_aws.moto_gaps import lambda_
from embedded_aws.moto_gaps.events import publish_event

_CALLER = "lambda.alarms.cloudwatch.amazonaws.com"
_MOST = 10_000
_log = logging.getLogger(__name__)


class _ActionError(Exception):
    """The reason why an action failed, in the words of its service."""


Action: TypeAlias = Callable[[Change, str, str, str, float], Any]
"""Performs an action by its ARN, account, region and time; returns what was sent, if anything was."""


class Actions:
    """The actions and events of an account in a region, which is what alarms report to."""

    def __init__(self, account: str, region: str) -> None:
        self._account, self._region = account, region
        # It outlives the alarms, and keeps as many entries as AWS keeps days: the newest.
        self._history: deque[dict[str, Any]] = deque(maxlen=_MOST)

    def history(self) -> list[dict[str, Any]]:
        return sorted(self._history.copy(), key=lambda entry: entry["Timestamp"])

    def _note(self, alarm: Alarm, item: str, summary: str, data: Mapping[str, Any], *, at: float) -> None:
        self._history.append(
            {
                "AlarmName": alarm.name,
                "AlarmType": alarm.kind,
                "Timestamp": moment(at),
                "HistoryItemType": item,
                "HistorySummary": summary,
                "HistoryData": json.dumps(data, default=str),
            }
        )

    def configured(self, alarm: Alarm, what: str, *, at: float) -> None:
        past = {"Create": "created", "Update": "updated", "Delete": "deleted"}[what]
        settings = {f"{name[0].lower()}{name[1:]}": value for name, value in alarm.settings.items()}
        data = {"version": "1.0", "type": what, f"{past}Alarm": {**settings, "alarmArn": alarm.alarm_arn}}
        summary = f'Alarm "{alarm.name}" {past}'
        self._note(alarm, "ConfigurationUpdate", summary, data, at=at)

    def changed(self, change: Change) -> None:
        old, new = _history_state(change.before), _history_state(change.after)
        data = {"version": "1.0", "oldState": old, "newState": new}
        summary = f"Alarm updated from {change.before.value} to {change.after.value}"
        self._note(change.alarm, "StateUpdate", summary, data, at=change.after.at)
        publish_event(
            source="aws.cloudwatch",
            detail_type="CloudWatch Alarm State Change",
            detail=_event_detail(change),
            resources=[change.alarm.alarm_arn],
            account=self._account,
            region=self._region,
        )

    def act(self, change: Change, action: str, *, at: float) -> None:
        """Perform an action. An action of an unknown service is only noted."""
        known = (each for prefix, each in ACTIONS.items() if action.startswith(prefix))
        perform = next(known, lambda *_: None)
        data: dict[str, Any] = {
            "actionState": "Succeeded",
            "stateUpdateTimestamp": int(change.after.at * 1000),
            "notificationResource": action,
            "publishedMessage": None,
            "error": None,
        }
        summary = f"Successfully executed action {action}"
        try:
            sent = perform(change, action, self._account, self._region, at)
            data["publishedMessage"] = None if sent is None else json.dumps(sent)
        except Exception as error:  # noqa: BLE001  an action that fails must not stop the evaluation
            if not isinstance(error, _ActionError):
                _log.exception("the action %s of the alarm %s failed", action, change.alarm.name)
            data |= {"actionState": "Failed", "error": str(error)}
            summary = f'Failed to execute action {action}. Received error: "{error}"'
        self._note(change.alarm, "Action", summary, data, at=at)


def _publish(change: Change, arn: str, account: str, region: str, _: float) -> Any:
    topic: Any = sns_backends[account][region].topics.get(arn)
    if topic is None:
        raise _ActionError("Topic does not exist")
    words = _in_words(region)
    text = json.dumps(_message(change, account=account, region=words))
    topic.publish(text, subject=f'{change.after.value}: "{change.alarm.name}" in {words}')
    return {"default": text}


def _invoke(change: Change, arn: str, account: str, region: str, _: float) -> Any:
    if not lambda_.allows(arn, service=_CALLER, source_arn=change.alarm.alarm_arn):
        msg = f"CloudWatch Alarms is not authorized to perform: lambda:InvokeFunction on the resource {arn}"
        raise _ActionError(msg)
    event = _function_event(change, account=account, region=region)
    lambda_.start(arn, json.dumps(event).encode())
    return event


ACTIONS: dict[str, Action] = {"arn:aws:sns:": _publish, "arn:aws:lambda:": _invoke}
"""The actions by the beginning of their ARNs. Other services add theirs."""


@cache
def _in_words(region: str) -> str:
    import botocore.session

    partitions = botocore.session.get_session().get_component("data_loader").load_data("endpoints")
    for partition in partitions["partitions"]:
        if region in partition["regions"]:
            return str(partition["regions"][region]["description"])
    return region


_LISTS = ("OKActions", "AlarmActions", "InsufficientDataActions")


def _message(change: Change, *, account: str, region: str) -> dict[str, Any]:
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


def _event_detail(change: Change) -> dict[str, Any]:
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


def _function_event(change: Change, *, account: str, region: str) -> dict[str, Any]:
    return {
        "source": "aws.cloudwatch",
        "alarmArn": change.alarm.alarm_arn,
        "accountId": account,
        "time": stamp(change.after.at),
        "region": region,
        "alarmData": _event_detail(change),
    }


def _history_state(status: Status) -> dict[str, Any]:
    known: dict[str, Any] = {"stateValue": status.value, "stateReason": status.reason}
    return {**known, "stateReasonData": json.loads(status.data)} if status.data else known
