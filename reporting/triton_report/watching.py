"""The monitoring of a fleet: the alarms and charts of an assembly."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from triton_report.assembly import Assembly, Resource
from triton_report.intrinsics import written

_ALARMS = ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """The alarms that are removed, and a line for each alarm or chart that differs."""

    alarms_lost: tuple[str, ...]
    lines: tuple[str, ...]


def watching_change(before: Assembly, after: Assembly) -> Watching:
    """Compare the alarms and charts of two assemblies."""
    old, new = _alarms(before), _alarms(after)
    old_charts, new_charts = list(_charts(before)), list(_charts(after))
    lost = tuple(name for name in old if name not in new)
    both = (name for name in new if name in old and old[name] != new[name])
    lines = (
        *(f"new: alarm `{name}`" for name in new if name not in old),
        *(f"gone: alarm `{name}`" for name in lost),
        *(f"changed: alarm `{name}: {old[name]} → {new[name]}`" for name in both),
        *(f'new: chart "{title}"' for title in new_charts if title not in old_charts),
        *(f'gone: chart "{title}"' for title in old_charts if title not in new_charts),
    )
    return Watching(alarms_lost=lost, lines=lines)


def _alarms(assembly: Assembly) -> dict[str, str]:
    return {each.path: _condition(each) for type_name in _ALARMS for each in assembly.of_type(type_name)}


_SIGNS = {
    "GreaterThanOrEqualToThreshold": "at least",
    "GreaterThanThreshold": "above",
    "LessThanThreshold": "below",
    "LessThanOrEqualToThreshold": "at most",
}


def _condition(alarm: Resource) -> str:
    properties = alarm.properties
    if "Threshold" not in properties:
        return "a combination"
    sign = _SIGNS.get(properties.get("ComparisonOperator", ""), str(properties.get("ComparisonOperator")))
    of = properties.get("EvaluationPeriods", 1)
    times = f"{properties.get('DatapointsToAlarm', of)} of {of} times"
    return f"{sign} {properties['Threshold']:g}, {times}"


def _charts(assembly: Assembly) -> Iterator[str]:
    for dashboard in assembly.of_type("AWS::CloudWatch::Dashboard"):
        body = written(dashboard.properties.get("DashboardBody", "{}"), dashboard.stack, assembly)
        for widget in _widgets(body):
            title = widget.get("properties", {}).get("title")
            if title:
                yield str(title)


def _widgets(body: str) -> list[Mapping[str, Any]]:
    try:
        widgets: list[Mapping[str, Any]] = json.loads(body).get("widgets", [])
    except ValueError:  # a body that is put together from values of the deployment
        return []
    return widgets
