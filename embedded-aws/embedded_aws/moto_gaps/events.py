"""EventBridge: rules, patterns and the functions that they invoke.

moto's gaps:
- A rule cannot have a function as its target: an event for one is an error. Here the event invokes the
  function if its resource policy allows EventBridge to do so. On AWS a rule without this permission does
  nothing; only the metric FailedInvocations shows it. Here such a rule does nothing either, but logs a
  warning. Read on 2026-11-21:
  https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-troubleshooting.html
- A pattern does not match inside arrays of objects, and a disabled rule still works.
- Services send it almost no events. Those that do so here use `publish_event`.
- CloudTrail lacks LookupEvents, which the CDK command line uses to find the cause of a failed deployment.
  Events appear there only after some minutes, so that an immediate lookup on AWS finds none either.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from moto.cloudtrail.responses import CloudTrailResponse
from moto.core.responses import ActionResult
from moto.core.utils import iso_8601_datetime_without_milliseconds, unix_time, utcfromtimestamp
from moto.events.models import UNDEFINED, EventPattern, Rule, events_backends
from moto.moto_api._internal import mock_random

from embedded_aws import eventbridge
from embedded_aws.moto_gaps import lambda_, patch

_log = logging.getLogger(__name__)
_moto_send = Rule.send_to_targets
_FUNCTION = ":lambda:"
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
    event: Any = {
        "version": "0",
        "id": str(mock_random.uuid4()),
        "detail-type": detail_type,
        "source": source,
        "account": account,
        "time": unix_time(),
        "region": region,
        "resources": list(resources),
        "detail": dict(detail),
        _INTERNAL: unix_time(),
    }
    backend = events_backends[account][region]
    for rule in list(backend.event_buses["default"].rules.values()):
        rule.send_to_targets(copy.deepcopy(event))


@patch.replaces(EventPattern, "matches_event")
def _matches_event(self: EventPattern, event: Any) -> bool:
    pattern = self.get_pattern()
    seen = {**event, "time": _time(event)}
    return not pattern or eventbridge.matches(
        pattern, seen, passes=self._does_item_match_filters, absent=UNDEFINED
    )


@patch.replaces(Rule, "send_to_targets")
def _send_to_targets(self: Rule, original_event: Any, transform_input: bool = True) -> None:  # noqa: FBT001, FBT002 (moto's)
    if self.state != "ENABLED" or not self.event_pattern.get_pattern():
        return  # a rule without a pattern runs on a schedule
    if not self.event_pattern.matches_event(original_event):
        return
    event = {key: value for key, value in original_event.items() if key != _INTERNAL}
    event["time"] = _time(event)
    for target in self.targets:
        if _FUNCTION in target["Arn"]:
            payload = eventbridge.target_input(target, event, rule_arn=self.arn)
            _start(self, target["Arn"], payload)
    others = copy.copy(self)
    others.targets = [target for target in self.targets if _FUNCTION not in target["Arn"]]
    _moto_send(others, original_event, transform_input)


def _start(rule: Rule, function_arn: str, payload: bytes) -> None:
    allowed = lambda_.allows(function_arn, service="events.amazonaws.com", source_arn=rule.arn)
    if allowed:
        lambda_.start(function_arn, payload)
    else:
        _log.warning("the rule %s may not invoke %s, or there is no such function", rule.name, function_arn)


def _time(event: Mapping[str, Any]) -> str:
    """Return an event's time as a string; moto stores seconds."""
    when = event["time"]
    return when if isinstance(when, str) else iso_8601_datetime_without_milliseconds(utcfromtimestamp(when))


@patch.adds(CloudTrailResponse, "lookup_events")
def _lookup_events(self: CloudTrailResponse) -> ActionResult:  # noqa: ARG001
    return ActionResult({"Events": []})
