"""EventBridge: rules, patterns and the functions that they invoke.

moto's gaps:
- A rule cannot have a function as its target: an event for one is an error. Here the event invokes the
  function if its resource policy allows EventBridge to do so. On AWS a rule without this permission does
  nothing; only the metric FailedInvocations shows it. Here such a rule does nothing either, but logs a
  warning. Read on 2026-11-21:
  https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-troubleshooting.html
- A queue gets the entire event, whatever input its target has, and without the leave of its policy.
- A rule with a schedule does nothing. Here it runs once a minute of the clock at most.
- A pattern does not match inside arrays of objects, and a disabled rule still works.
- Services send it almost no events. Those that do so here use `publish_event`.
- CloudTrail lacks LookupEvents, which the CDK command line uses to find the cause of a failed deployment.
  Events appear there only after some minutes, so that an immediate lookup on AWS finds none either.

Patterns and the input of targets, read on 2026-11-21:
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-event-patterns.html
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html
"""

from __future__ import annotations

import copy
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moto.cloudtrail.responses import CloudTrailResponse
from moto.core.responses import ActionResult
from moto.core.utils import iso_8601_datetime_without_milliseconds, unix_time, utcfromtimestamp
from moto.events.models import UNDEFINED, EventPattern, Rule, events_backends
from moto.moto_api._internal import mock_random

from embedded_aws import clock
from embedded_aws.autoscaling import next_time
from embedded_aws.clock import moment
from embedded_aws.moto_gaps import lambda_, patch, queues

Event = Mapping[str, Any]

# Returns True if a value of an event, or its absence, passes a pattern's list of filters.
Filters = Callable[[Any, list[Any]], bool]

_PLACEHOLDER = re.compile(r"<([A-Za-z0-9_.\-]+)>")


def matches(pattern: Mapping[str, Any], event: Any, *, passes: Filters, absent: object) -> bool:
    """Return True if an event has every field of a pattern, with a value that the pattern allows.

    If the event has an array, one element must match. If the elements are objects, a single one must match
    all fields of the pattern below it.
    """
    if isinstance(event, list):
        return any(matches(pattern, element, passes=passes, absent=absent) for element in event)
    fields: Mapping[str, Any] = event if isinstance(event, Mapping) else {}

    def holds(name: str, wanted: Any) -> bool:
        if name == "$or":
            return any(matches(part, fields, passes=passes, absent=absent) for part in wanted)
        if isinstance(wanted, Mapping):
            return matches(wanted, fields.get(name), passes=passes, absent=absent)
        return passes(fields.get(name, absent), wanted)

    return all(holds(name, wanted) for name, wanted in pattern.items())


def target_input(target: Mapping[str, Any], event: Event, *, rule_arn: str) -> bytes:
    """Return a target's input: a constant, a part of the event, a filled template, or the entire event."""
    if "Input" in target:
        return str(target["Input"]).encode()
    if "InputPath" in target:
        return json.dumps(_at(target["InputPath"], event)).encode()
    if "InputTransformer" in target:
        return _transformed(target["InputTransformer"], event, rule_arn).encode()
    return json.dumps(event).encode()


def _transformed(transformer: Mapping[str, Any], event: Event, rule_arn: str) -> str:
    without_detail = {key: value for key, value in event.items() if key != "detail"}
    values = {
        "aws.events.rule-arn": rule_arn,
        "aws.events.rule-name": rule_arn.rsplit("/", 1)[-1],
        "aws.events.event.ingestion-time": event["time"],
        "aws.events.event": without_detail,
        "aws.events.event.json": event,
        **{name: _at(path, event) for name, path in transformer.get("InputPathsMap", {}).items()},
    }
    template: str = transformer["InputTemplate"]

    def fill(found: re.Match[str]) -> str:
        if found[1] not in values:
            return found[0]
        quoted = json.dumps(values[found[1]])
        # An odd number of quotes before it: the placeholder is inside a JSON string.
        inside = re.sub(r"\\.", "", template[: found.start()]).count('"') % 2
        return quoted[1:-1] if inside and quoted.startswith('"') else quoted

    return _PLACEHOLDER.sub(fill, template)


def _at(path: str, event: Event) -> Any:
    """Return the first value at a JSONPath; None if the event has none."""
    from jsonpath_ng.ext import parser

    found: Any = parser.parse(path).find(event)
    return found[0].value if found else None


_log = logging.getLogger(__name__)
_moto_send = Rule.send_to_targets
_FUNCTION, _QUEUE = ":lambda:", ":sqs:"
_SERVICE = "events.amazonaws.com"
# A field that moto adds. Events on AWS do not have it.
_INTERNAL = "ingestion-time"


def publish_event(
    *,
    source: str,
    detail_type: str,
    detail: Mapping[str, Any],
    resources: Sequence[str],
    account: str,
    region: str,
) -> None:
    """Pass a service's event to the rules of the default event bus. Returns before any target is done."""
    event: Any = _event(source, detail_type, detail, resources, account, region)
    event[_INTERNAL] = unix_time()
    backend = events_backends[account][region]
    for rule in list(backend.event_buses["default"].rules.values()):
        rule.send_to_targets(copy.deepcopy(event))


def _event(  # noqa: PLR0917
    source: str, kind: str, detail: Event, resources: Sequence[str], account: str, region: str
) -> dict[str, Any]:
    return {
        "version": "0",
        "id": str(mock_random.uuid4()),
        "detail-type": kind,
        "source": source,
        "account": account,
        "time": unix_time(),
        "region": region,
        "resources": list(resources),
        "detail": dict(detail),
    }


@patch.replaces(EventPattern, "matches_event")
def _matches_event(self: EventPattern, event: Any) -> bool:
    pattern = self.get_pattern()
    seen = {**event, "time": _time(event)}
    return not pattern or matches(pattern, seen, passes=self._does_item_match_filters, absent=UNDEFINED)


@patch.replaces(Rule, "send_to_targets")
def _send_to_targets(self: Rule, original_event: Any, transform_input: bool = True) -> None:  # noqa: FBT001, FBT002 (moto's)
    if self.state != "ENABLED" or not self.event_pattern.get_pattern():
        return  # a rule without a pattern runs on a schedule
    if not self.event_pattern.matches_event(original_event):
        return
    event = {key: value for key, value in original_event.items() if key != _INTERNAL}
    event["time"] = _time(event)
    _send(self, event)
    others = copy.copy(self)
    others.targets = [target for target in self.targets if not _is_own(target)]
    _moto_send(others, original_event, transform_input)


def _is_own(target: Mapping[str, Any]) -> bool:
    return _FUNCTION in target["Arn"] or _QUEUE in target["Arn"]


def _send(rule: Rule, event: Event) -> None:
    """Pass an event to the functions and queues of a rule."""
    for target in filter(_is_own, rule.targets):
        arn, payload = target["Arn"], target_input(target, event, rule_arn=rule.arn)
        if _QUEUE in arn:
            group = target.get("SqsParameters", {}).get("MessageGroupId")
            allowed = queues.send(arn, payload.decode(), group=group, service=_SERVICE, source_arn=rule.arn)
        else:
            allowed = lambda_.allows(arn, service=_SERVICE, source_arn=rule.arn)
            if allowed:
                lambda_.start(arn, payload)
        if not allowed:
            _log.warning("the rule %s may not use %s, or it does not exist", rule.name, arn)


def run_schedules(account: str, *, at: float) -> None:
    """Run the rules of the default event bus whose schedules have become due."""
    for region, backend in list(events_backends[account].items()):
        for rule in list(backend.event_buses["default"].rules.values()):
            since = vars(rule).setdefault("embedded_aws_ran", clock.current().time())
            schedule = rule.scheduled_expression if rule.state == "ENABLED" else None
            due = schedule and next_time(schedule, after=moment(since), start=moment(since))
            if due and due.timestamp() <= at:
                vars(rule)["embedded_aws_ran"] = at
                _send(rule, _event("aws.events", "Scheduled Event", {}, [rule.arn], account, region))


def _time(event: Mapping[str, Any]) -> str:
    when = event["time"]
    return when if isinstance(when, str) else iso_8601_datetime_without_milliseconds(utcfromtimestamp(when))


@patch.adds(CloudTrailResponse, "lookup_events")
def _lookup_events(self: CloudTrailResponse) -> ActionResult:  # noqa: ARG001
    return ActionResult({"Events": []})
