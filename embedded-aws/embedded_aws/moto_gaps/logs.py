"""CloudWatch Logs.

moto's gaps:
- PutMetricFilter adds a second filter with the same name instead of replacing the first. Filters do not count
  anything, and stay when their group is deleted. Here a default value is published for each minute with
  events of which none matches, as AWS does. Events have the wall clock's time, and metrics that of
  `embedded_aws.clock`.
  https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/MonitoringLogData.html, read on 2026-11-23.
- Patterns other than one phrase match every event. Here terms and selectors of JSON events are understood;
  patterns in brackets and regular expressions are refused. Read on 2026-11-23:
  https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html
- It lacks AssociateKmsKey and DisassociateKmsKey.
- FilterLogEvents ignores the prefix of streams, and returns the events of one stream after those of another.
- A stream keeps all events, and the class of events a list of its own. Here the stream keeps the newest
  `KEPT_EVENTS`, and the class none, so that memory does not grow for good.
"""

from __future__ import annotations

import fnmatch
import json
import operator
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import cache
from typing import Any

from moto.cloudwatch.models import cloudwatch_backends
from moto.kms.models import kms_backends
from moto.logs import models
from moto.logs.exceptions import InvalidParameterException, ResourceNotFoundException
from moto.logs.metric_filters import MetricFilters
from moto.logs.models import LogGroup, LogsBackend, logs_backends
from moto.logs.responses import LogsResponse

from embedded_aws import clock
from embedded_aws.moto_gaps import patch
from embedded_aws.moto_gaps.metrics import is_value
from embedded_aws.syntax import Logic

KEPT_EVENTS = 20_000

_NO_STREAM = [""]

_moto_add = MetricFilters.add_filter
_moto_delete_group = LogsBackend.delete_log_group
_moto_put_events = LogGroup.put_log_events


class _Pattern:
    def __init__(self, pattern: str | None) -> None:
        self.matches = _matcher(pattern or "")


def _matcher(pattern: str) -> Any:
    try:
        return matcher(pattern)
    except PatternError as error:
        raise InvalidParameterException(str(error)) from error


@patch.replaces(MetricFilters, "add_filter")
def _add_filter(
    self: MetricFilters,
    filter_name: str,
    filter_pattern: str,
    log_group_name: str,
    metric_transformations: str,
) -> None:
    _matcher(filter_pattern)
    self.delete_filter(filter_name, log_group_name)
    _moto_add(self, filter_name, filter_pattern, log_group_name, metric_transformations)


@patch.replaces(LogsBackend, "delete_log_group")
def _delete_group(self: LogsBackend, log_group_name: str) -> None:
    _moto_delete_group(self, log_group_name)
    kept = [each for each in self.filters.metric_filters if each["logGroupName"] != log_group_name]
    self.filters.metric_filters = kept


@patch.replaces(LogGroup, "put_log_events")
def _put_events(self: LogGroup, log_stream_name: str, log_events: list[dict[str, Any]]) -> str:
    token = _moto_put_events(self, log_stream_name, log_events)
    count(self, log_events)
    events = self.streams[log_stream_name].events
    del events[: max(0, len(events) - KEPT_EVENTS)]
    models.LogEvent.instances_tracked.clear()  # type: ignore[attr-defined]
    return token


@patch.replaces(LogsResponse, "filter_log_events")
def _filter_log_events(self: LogsResponse) -> str:
    request, logs = json.loads(self.body), self.logs_backend
    identifier = request.get("logGroupIdentifier", "").rpartition(":log-group:")[2]
    group = request.get("logGroupName") or identifier.removesuffix(":*")
    events, token, searched = logs.filter_log_events(
        group,
        _streams(logs, group, request),
        request.get("startTime"),
        request.get("endTime"),
        request.get("limit"),
        request.get("nextToken"),
        request.get("filterPattern"),
        interleaved=True,  # as AWS always does
    )
    answer = {"events": events, "searchedLogStreams": searched}
    return json.dumps(answer | ({"nextToken": token} if token else {}))


def _streams(logs: LogsBackend, group: str, request: Mapping[str, Any]) -> list[str]:
    prefix, found = request.get("logStreamNamePrefix"), logs.groups.get(group)
    if prefix is None or found is None:
        return list(request.get("logStreamNames", []))
    return [name for name in found.streams if name.startswith(prefix)] or _NO_STREAM


patch.replace(models, EventMessageFilter=_Pattern)


@patch.adds(LogsResponse, "associate_kms_key")
def _associate_kms_key(self: LogsResponse) -> str:
    group, key = _group(self), self._get_param("kmsKeyId")
    if not _may_use(key, region=self.region, account=self.current_account):
        message = f"The specified KMS key does not exist or is not allowed to be used with Arn '{group.arn}'"
        raise InvalidParameterException(message)
    group.kms_key_id = key
    return ""


@patch.adds(LogsResponse, "disassociate_kms_key")
def _disassociate_kms_key(self: LogsResponse) -> str:
    _group(self).kms_key_id = None
    return ""


def _group(self: LogsResponse) -> LogGroup:
    name = self._get_param("logGroupName")
    if name not in self.logs_backend.groups:
        raise ResourceNotFoundException
    group: LogGroup = self.logs_backend.groups[name]
    return group


def _may_use(key: str, *, region: str, account: str) -> bool:
    found = kms_backends[account][region].keys.get(key.rpartition("/")[2])
    policy: dict[str, Any] = json.loads(found.policy) if found else {}
    return any(
        f"logs.{region}." in json.dumps(statement.get("Principal", ""))
        for statement in policy.get("Statement", ())
        if statement["Effect"] == "Allow"
    )


_MINUTE_MS = 60_000


def count(group: LogGroup, events: Sequence[Mapping[str, Any]]) -> None:
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


Test = Callable[[Any], bool]

_TERM = re.compile(r'\s*([?-]?)(?:"((?:[^"\\]|\\.)*)"|([^\s"]+))')
_CONDITION = re.compile(
    r"""(?P<selector>\$[.\[][^\s=!<>()&|]*)\s*(?:(?P<state>(?i:IS\s+(?:TRUE|FALSE|NULL)|(?:NOT\s+)?EXISTS))"""
    r"""|(?P<sign>!=|<=|>=|[=<>])\s*(?:"(?P<text>(?:[^"\\]|\\.)*)"|(?P<word>[^\s=!<>()&|"]+)))"""
)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\"?'?([^\]\"']+)\"?'?\]")
_Order = Callable[[float, float], bool]
_ORDERS: Mapping[str, _Order] = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_ABSENT = object()
_STATES: Mapping[str, Test] = {
    "IS TRUE": lambda value: value is True,
    "IS FALSE": lambda value: value is False,
    "IS NULL": lambda value: value is None,
    "EXISTS": lambda value: value is not _ABSENT,
    "NOT EXISTS": lambda value: value is _ABSENT,
}


class PatternError(ValueError):
    """A pattern that CloudWatch Logs, or this package, does not understand."""


@cache
def matcher(pattern: str) -> Callable[[str], bool]:
    """Return the test of an event's message for a pattern. An empty pattern matches every event."""
    text = pattern.strip()
    if text.startswith("{") and text.endswith("}"):
        test = _json_test(text[1:-1])
        return lambda message: (event := json_of(message)) is not None and test(event)
    if text.startswith(("[", "%")):
        raise PatternError(f"Invalid filter pattern: {pattern}")
    return _terms_test(text)


def json_of(message: str) -> Any:
    try:
        event = json.loads(message)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def selected(event: Any, selector: str) -> Any:
    """Return the value that a selector such as `$.a.b[0]` finds in an event; None if there is none."""
    value = _find(event, selector)
    return None if value is _ABSENT else value


def _terms_test(text: str) -> Callable[[str], bool]:
    """Return the test of terms, all case-sensitive. Optional ones count only among themselves, as in AWS."""
    kinds: dict[str, list[str]] = {"": [], "?": [], "-": []}
    position = 0
    while position < len(text):
        found = _TERM.match(text, position)
        if found is None:
            raise PatternError(f"Invalid filter pattern: {text}")
        kind, quoted, plain = found.groups()
        kinds[kind].append(_unescaped(quoted) if quoted is not None else plain)
        position = found.end()
    required, optional, excluded = kinds.values()
    return lambda message: (
        all(term in message for term in required)
        and not any(term in message for term in excluded)
        and (bool(required or excluded or not optional) or any(term in message for term in optional))
    )


def _json_test(text: str) -> Test:
    try:
        logic = Logic(text, _CONDITION)
        tests = {each: _condition_test(each) for each in logic.conditions}
    except ValueError as error:
        raise PatternError(f"Invalid filter pattern: {{{text}}}") from error
    return lambda event: logic.holds(lambda each: tests[each](_find(event, each["selector"])))


def _condition_test(found: re.Match[str]) -> Test:
    _find({}, found["selector"])
    if found["state"]:
        return _STATES[" ".join(found["state"].upper().split())]
    sign, quoted = found["sign"], found["text"] is not None
    wanted = _unescaped(found["text"]) if quoted else found["word"]
    if sign in _ORDERS:
        order, limit = _ORDERS[sign], float(wanted)
        return lambda value: _is_number(value) and order(float(value), limit)
    equal = _equality(wanted, quoted=quoted)
    return equal if sign == "=" else lambda value: value is not _ABSENT and not equal(value)


def _equality(wanted: str, *, quoted: bool) -> Test:
    """Return the test for a text, in which * stands for any characters, or for a number without quotes."""
    number = None if quoted else _number(wanted)
    form = re.compile(fnmatch.translate(wanted.replace("[", "[[]").replace("?", "[?]")))

    def equal(value: Any) -> bool:
        if _is_number(value):
            return number is not None and float(value) == number
        return isinstance(value, str) and form.match(value) is not None

    return equal


def _find(event: Any, selector: str) -> Any:
    value, position = event, 1
    while position < len(selector):
        step = _STEP.match(selector, position)
        if step is None:
            raise PatternError(f"Invalid filter pattern: {selector}")
        position = step.end()
        name, index, quoted = step.groups()
        if index is not None:
            value = value[int(index)] if isinstance(value, list) and int(index) < len(value) else _ABSENT
        else:
            value = value.get(name or quoted, _ABSENT) if isinstance(value, dict) else _ABSENT
        if value is _ABSENT:
            break
    return value


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
