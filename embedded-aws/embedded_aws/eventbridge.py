"""EventBridge's rules: matching of patterns, and the input of targets.

Read on 2026-11-21:
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-event-patterns.html
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

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
        inside = _inside_quotes(template[: found.start()])
        return quoted[1:-1] if inside and quoted.startswith('"') else quoted

    return _PLACEHOLDER.sub(fill, template)


def _inside_quotes(text: str) -> bool:
    """Return True if the position after this part of a template is inside a JSON string."""
    return re.sub(r"\\.", "", text).count('"') % 2 == 1


def _at(path: str, event: Event) -> Any:
    """Return the first value at a JSONPath; None if the event has none."""
    from jsonpath_ng.ext import parser

    found: Any = parser.parse(path).find(event)
    return found[0].value if found else None
