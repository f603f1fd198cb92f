"""Alarms and their states: of metrics and of other alarms, with what happens when a state changes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from embedded_aws.clock import moment
from embedded_aws.cloudwatch.alarm_state import Reading, Rule, State, limit_of, stamp
from embedded_aws.cloudwatch.series import MetricStore

SCALING = "arn:aws:autoscaling:"
"""The beginning of the ARN of an action that is repeated while its alarm keeps the state."""

_ACTIONS: Mapping[State, str] = {
    "ALARM": "AlarmActions",
    "OK": "OKActions",
    "INSUFFICIENT_DATA": "InsufficientDataActions",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The state of an alarm, with its reason and its time, in seconds since 1970."""

    value: State
    reason: str
    data: str = ""
    at: float


@dataclass(slots=True, kw_only=True)
class Alarm:
    settings: Mapping[str, Any]
    alarm_arn: str
    status: Status
    configured: float
    transitioned: float

    @property
    def name(self) -> str:
        return str(self.settings["AlarmName"])

    @property
    def kind(self) -> str:
        return "CompositeAlarm" if "AlarmRule" in self.settings else "MetricAlarm"

    @property
    def state_value(self) -> State:
        return self.status.value

    @property
    def alarm_actions(self) -> list[str]:
        return list(self.settings.get("AlarmActions") or ())

    def actions(self) -> list[str]:
        if not self.settings.get("ActionsEnabled", True):
            return []
        return list(self.settings.get(_ACTIONS[self.status.value]) or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    alarm: Alarm
    before: Status
    after: Status


class Observer(Protocol):
    """The receiver of everything that happens to alarms. It may call them again."""

    def configured(self, alarm: Alarm, what: str, *, at: float) -> None:
        """Note that an alarm was created, updated or deleted, as `what` says."""

    def changed(self, change: Change) -> None:
        """Note a change of a state, before its actions."""

    def act(self, change: Change, action: str, *, at: float) -> None:
        """Perform an action, given by its ARN."""


@dataclass(slots=True, kw_only=True)
class Alarms:
    """All alarms of an account in a region. Threads may share it."""

    prefix: str
    metrics: MetricStore
    observer: Observer
    by_name: MutableMapping[str, Alarm]
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def put(self, settings: Mapping[str, Any], *, at: float) -> None:
        """Create an alarm or change its settings. A changed one keeps its state."""
        name = str(settings["AlarmName"])
        with self._lock:
            former = self.by_name.get(name)
            begin = Status(value="INSUFFICIENT_DATA", reason="Unchecked: Initial alarm creation", at=at)
            alarm = Alarm(
                settings=settings,
                alarm_arn=f"{self.prefix}{name}",
                status=former.status if former else begin,
                configured=at,
                transitioned=former.transitioned if former else at,
            )
            self.by_name[name] = alarm
        self.observer.configured(alarm, "Update" if former else "Create", at=at)
        self._follow({name}, at)

    def delete(self, names: Sequence[str], *, at: float) -> None:
        with self._lock:
            gone = [alarm for name in names if (alarm := self.by_name.pop(name, None)) is not None]
        for alarm in gone:
            self.observer.configured(alarm, "Delete", at=at)
        self._follow({alarm.name for alarm in gone}, at)

    def enable_actions(self, names: Sequence[str], *, enabled: bool, at: float) -> None:
        for name in names:
            if (alarm := self.by_name.get(name)) is not None:
                self.put({**alarm.settings, "ActionsEnabled": enabled}, at=at)

    def set_state(self, name: str, status: Status) -> None:
        """Set the state of an alarm until its next evaluation."""
        changes = self._change(self.by_name[name], status)
        self._tell(changes, at=status.at)
        self._follow(_names(changes), status.at, but=name)

    def firing(self, action: str) -> list[Alarm]:
        """Return the metric alarms in ALARM with an action that begins so, by name."""
        return [
            alarm
            for _, alarm in sorted(self.by_name.items())
            if (alarm.kind, alarm.state_value) == ("MetricAlarm", "ALARM")
            and any(each.startswith(action) for each in alarm.alarm_actions)
        ]

    def values(self, alarm: Alarm, *, at: float) -> list[float]:
        """Return the values of an alarm's metric in the periods that it evaluates, the oldest first."""
        points = Reading.of(self.metrics, alarm.settings, at=at).points[-limit_of(alarm.settings).periods :]
        return [value for value in points if value is not None]

    def evaluate(self, *, at: float) -> None:
        """Evaluate every alarm, then perform the actions of those that changed."""
        changes, steady = list[Change](), list[Alarm]()
        for alarm in list(self.by_name.values()):
            if alarm.kind == "MetricAlarm":
                found = self._evaluate_metric(alarm, at)
                changes += found
                steady += [] if found else [alarm]
        self._tell(changes, at=at)
        self._follow(_names(changes), at)
        for alarm in steady:
            self._repeat(alarm, at)

    def _evaluate_metric(self, alarm: Alarm, at: float) -> list[Change]:
        limit = limit_of(alarm.settings)
        reading = Reading.of(self.metrics, alarm.settings, at=at)
        state = limit.state(reading.points)
        if state is None or state == alarm.status.value:
            return []
        reason = reading.reason(limit, state, before=alarm.status.value)
        data = json.dumps(reading.reason_data(alarm.settings, at=at))
        return self._change(alarm, Status(value=state, reason=reason, data=data, at=at))

    def _change(self, alarm: Alarm, status: Status) -> list[Change]:
        """Set a state; return the change if it is another one and the alarm still exists."""
        with self._lock:
            if self.by_name.get(alarm.name) is not alarm:
                return []
            before, alarm.status = alarm.status, status
            if before.value == status.value:
                return []
            alarm.transitioned = status.at
        return [Change(alarm=alarm, before=before, after=status)]

    def _tell(self, changes: Sequence[Change], *, at: float) -> None:
        for change in changes:
            self.observer.changed(change)
            for action in change.alarm.actions():
                self.observer.act(change, action, at=at)

    def _repeat(self, alarm: Alarm, at: float) -> None:
        change = Change(alarm=alarm, before=alarm.status, after=alarm.status)
        for action in alarm.actions():
            if action.startswith(SCALING):
                self.observer.act(change, action, at=at)

    def _follow(self, names: set[str], at: float, *, but: str = "") -> None:
        for _ in range(len(self.by_name) + 1):  # a cycle of composite alarms ends as well
            concerned = [
                alarm for alarm in self._composites() if alarm.name != but and _concerns(alarm, names)
            ]
            changes = [change for each in concerned for change in self._evaluate_composite(each, at)]
            self._tell(changes, at=at)
            if not changes:
                break
            names = _names(changes)

    def _composites(self) -> Iterator[Alarm]:
        return (alarm for alarm in list(self.by_name.values()) if alarm.kind == "CompositeAlarm")

    def _evaluate_composite(self, alarm: Alarm, at: float) -> list[Change]:
        rule = Rule(alarm.settings["AlarmRule"])
        with self._lock:
            children = [self.by_name[name] for name in rule.alarms if name in self.by_name]
            state: State = (
                "ALARM" if rule.holds({each.name: each.status.value for each in children}) else "OK"
            )
        if state == alarm.status.value:
            return []
        # Of its alarms, the one that changed last brought the change about.
        latest = max(children, key=lambda each: each.transitioned, default=None)
        if latest is None:
            return self._change(alarm, Status(value=state, reason="The rule is constant", data="{}", at=at))
        when = f"{moment(latest.transitioned):%A %d %B, %Y %H:%M:%S} UTC"
        reason = f"{latest.alarm_arn} transitioned to {latest.status.value} at {when}"
        trigger = {"value": latest.status.value, "timestamp": stamp(latest.transitioned)}
        data = {"triggeringAlarms": [{"arn": latest.alarm_arn, "state": trigger}]}
        return self._change(alarm, Status(value=state, reason=reason, data=json.dumps(data), at=at))


def _names(changes: Sequence[Change]) -> set[str]:
    return {change.alarm.name for change in changes}


def _concerns(alarm: Alarm, names: set[str]) -> bool:
    return alarm.name in names or not names.isdisjoint(Rule(alarm.settings["AlarmRule"]).alarms)
