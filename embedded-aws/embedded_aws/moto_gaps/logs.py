"""CloudWatch Logs.

moto's gaps:
- PutMetricFilter adds a second filter with the same name instead of replacing the first. Filters do not count
  anything (see `metric_filters`), and stay when their group is deleted.
- Patterns other than one phrase match every event. See `embedded_aws.filter_pattern`.
- It lacks TestMetricFilter.
- FilterLogEvents ignores the prefix of streams, and returns the events of one stream after those of another.
- A stream keeps all events, and the class of events a list of its own. Here the stream keeps the newest
  `KEPT_EVENTS`, and the class none, so that memory does not grow for good.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from moto.logs import models
from moto.logs.exceptions import InvalidParameterException
from moto.logs.metric_filters import MetricFilters
from moto.logs.models import LogGroup, LogsBackend
from moto.logs.responses import LogsResponse

from embedded_aws.filter_pattern import PatternError, matcher
from embedded_aws.moto_gaps import patch
from embedded_aws.moto_gaps.metric_filters import count

KEPT_EVENTS = 20_000

_NO_STREAM = [""]

_moto_add = MetricFilters.add_filter
_moto_delete_group = LogsBackend.delete_log_group
_moto_put_events = LogGroup.put_log_events


class _Pattern:
    """A filter pattern with the interface of moto's."""

    def __init__(self, pattern: str | None) -> None:
        self.matches = _matcher(pattern or "")


def _matcher(pattern: str) -> Any:
    try:
        return matcher(pattern)
    except PatternError as error:
        raise InvalidParameterException(str(error)) from error


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


def _delete_group(self: LogsBackend, log_group_name: str) -> None:
    _moto_delete_group(self, log_group_name)
    kept = [each for each in self.filters.metric_filters if each["logGroupName"] != log_group_name]
    self.filters.metric_filters = kept


def _put_events(self: LogGroup, log_stream_name: str, log_events: list[dict[str, Any]]) -> str:
    token = _moto_put_events(self, log_stream_name, log_events)
    count(self, log_events)
    events = self.streams[log_stream_name].events
    del events[: max(0, len(events) - KEPT_EVENTS)]
    models.LogEvent.instances_tracked.clear()  # type: ignore[attr-defined]
    return token


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
    """Return the streams to search; none for all."""
    prefix, found = request.get("logStreamNamePrefix"), logs.groups.get(group)
    if prefix is None or found is None:
        return list(request.get("logStreamNames", []))
    return [name for name in found.streams if name.startswith(prefix)] or _NO_STREAM


def _test_metric_filter(self: LogsResponse) -> str:
    request = json.loads(self.body)
    matches = _matcher(request["filterPattern"])
    found = [
        {"eventNumber": number, "eventMessage": message, "extractedValues": {}}
        for number, message in enumerate(request["logEventMessages"], start=1)
        if matches(message)
    ]
    return json.dumps({"matches": found})


def install() -> None:
    """Close the gaps."""
    patch.add(LogsResponse, test_metric_filter=_test_metric_filter)
    patch.replace(MetricFilters, add_filter=_add_filter)
    patch.replace(LogsBackend, delete_log_group=_delete_group)
    patch.replace(LogGroup, put_log_events=_put_events)
    patch.replace(LogsResponse, filter_log_events=_filter_log_events)
    patch.replace(models, EventMessageFilter=_Pattern)
