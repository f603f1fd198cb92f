"""The actions of alarms: topics, functions, scaling policies, and the events that EventBridge gets.

An action that fails has no other effect than an entry in the alarm's history, as on AWS.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol

from moto.sns.models import sns_backends

from embedded_aws.clock import moment
from embedded_aws.cloudwatch import alarm_messages
from embedded_aws.cloudwatch.alarms import Alarm, Change
from embedded_aws.moto_gaps import lambda_
from embedded_aws.moto_gaps.events import publish_event

_CALLER = "lambda.alarms.cloudwatch.amazonaws.com"
_MOST = 10_000
_log = logging.getLogger(__name__)


class _ActionError(Exception):
    """The reason why an action failed, in the words of its service."""


class Action(Protocol):
    """Performs actions of one service."""

    def __call__(self, change: Change, arn: str, account: str, region: str, at: float) -> Any:
        """Perform an action; return what was sent, if anything was."""


class Actions:
    """The actions and events of an account in a region, which is what alarms report to."""

    def __init__(self, account: str, region: str) -> None:
        self._account, self._region = account, region
        # It outlives the alarms, and keeps as many entries as AWS keeps days: the newest.
        self._history: deque[dict[str, Any]] = deque(maxlen=_MOST)

    def history(self) -> list[dict[str, Any]]:
        """Return the alarms' history as DescribeAlarmHistory shows it, the oldest first."""
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
        """Note that an alarm was created, updated or deleted."""
        summary, data = alarm_messages.history_of_configuration(alarm, what)
        self._note(alarm, "ConfigurationUpdate", summary, data, at=at)

    def changed(self, change: Change) -> None:
        """Note a change of a state, and send its event."""
        summary, data = alarm_messages.history_of_change(change)
        self._note(change.alarm, "StateUpdate", summary, data, at=change.after.at)
        publish_event(
            source="aws.cloudwatch",
            detail_type="CloudWatch Alarm State Change",
            detail=alarm_messages.event_detail(change),
            resources=[change.alarm.alarm_arn],
            account=self._account,
            region=self._region,
        )

    def act(self, change: Change, action: str, *, at: float) -> None:
        """Perform an action. An action of an unknown service is only noted."""
        perform = next((each for prefix, each in ACTIONS.items() if action.startswith(prefix)), _only_noted)
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


def _publish(change: Change, arn: str, account: str, region: str, at: float) -> Any:
    del at
    topic: Any = sns_backends[account][region].topics.get(arn)
    if topic is None:
        raise _ActionError("Topic does not exist")
    words = _in_words(region)
    text = json.dumps(alarm_messages.message(change, account=account, region=words))
    topic.publish(text, subject=alarm_messages.subject(change, words))
    return {"default": text}


def _invoke(change: Change, arn: str, account: str, region: str, at: float) -> Any:
    del at
    if not lambda_.allows(arn, service=_CALLER, source_arn=change.alarm.alarm_arn):
        msg = f"CloudWatch Alarms is not authorized to perform: lambda:InvokeFunction on the resource {arn}"
        raise _ActionError(msg)
    event = alarm_messages.function_event(change, account=account, region=region)
    lambda_.start(arn, json.dumps(event).encode())
    return event


def _only_noted(change: Change, arn: str, account: str, region: str, at: float) -> Any:
    del change, arn, account, region, at


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
