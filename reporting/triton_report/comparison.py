"""The comparison of two revisions, the content of a report, with what watches the fleet in each."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from triton_models.declare.reading import FORM_MARK, published_name
from triton_models.facts.cost import Estimate
from triton_report.assembly import Assembly, Resource, SynthesisWarning
from triton_report.changes import Change, changes
from triton_report.declared import ModelChange, model_changes
from triton_report.intrinsics import written
from triton_report.permissions import PermissionChange, permission_change
from triton_report.revisions import Revision
from triton_report.settings import Setting, setting_changes
from triton_report.spending import fleets

_ALARMS = ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm")
_SIGNS = {
    "GreaterThanOrEqualToThreshold": "at least",
    "GreaterThanThreshold": "above",
    "LessThanThreshold": "below",
    "LessThanOrEqualToThreshold": "at most",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """The alarms that are removed, and a line for each alarm or chart that differs."""

    alarms_lost: tuple[str, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LostModels:
    """Models that leave the build job while the fleet of an alias moves from one target to another."""

    alias: str
    before: str
    after: str
    models: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """The differences between two revisions, each found when it is first asked for."""

    before: Revision
    after: Revision
    # The current artifact of each model, such as "95.4 MB, for A10G and Triton 25.09", if it was asked for.
    published: Mapping[str, str] | None = None

    @cached_property
    def settings(self) -> list[Setting]:
        """The settings that differ."""
        before, after = self.before, self.after
        return list(setting_changes(before.assembly, after.assembly, before.declared, after.declared))

    @cached_property
    def changes(self) -> list[Change]:
        """The resources that differ."""
        return changes(self.before.assembly, self.after.assembly)

    @cached_property
    def permissions(self) -> PermissionChange:
        """The permissions that differ."""
        return permission_change(self.before.assembly, self.after.assembly)

    @cached_property
    def watching(self) -> Watching:
        """The alarms and charts that differ."""
        return _watching_change(self.before.assembly, self.after.assembly)

    @cached_property
    def models(self) -> list[ModelChange]:
        """The model builds that differ."""
        return model_changes(self.before.declared, self.after.declared)

    @property
    def one_library(self) -> bool:
        """True if the base requires another version of the library, but was synthesized with this one."""
        before, after = self.before, self.after
        return before.declared.library != after.declared.library and before.python == after.python

    @property
    def warnings(self) -> list[SynthesisWarning]:
        """The new warnings of the synthesis."""
        new = self.after.assembly.warnings - self.before.assembly.warnings
        return sorted(new, key=lambda each: (each.path, each.text))

    @property
    def stacks_left(self) -> list[str]:
        """Stacks that are no longer in the app. A deployment does not touch them: they run on."""
        return sorted(self.before.assembly.stacks - self.after.assembly.stacks)

    @property
    def costs_before(self) -> dict[str, Estimate]:
        """The previous cost of each variant with a known price."""
        return _costs(self.before)

    @property
    def costs_after(self) -> dict[str, Estimate]:
        """The new cost of each variant, including those of orphaned stacks."""
        behind = {
            f"{fleet.name} of {fleet.stack}, orphaned": estimate
            for fleet in fleets(self.before.assembly)
            if fleet.stack in self.stacks_left and (estimate := fleet.cost(models=0)) is not None
        }
        return _costs(self.after) | behind

    @property
    def cost_difference(self) -> tuple[float, float]:
        """USD a month: how much the floor changes, and how much the ceiling."""
        before, after = self.costs_before.values(), self.costs_after.values()
        return (
            sum(each.floor for each in after) - sum(each.floor for each in before),
            sum(each.ceiling for each in after) - sum(each.ceiling for each in before),
        )

    @property
    def moves_without(self) -> list[LostModels]:
        """The models without which a fleet would move to another target, so that its deployment stops."""
        known = self.after.declared.names
        leaving = [name for name in self.before.declared.names if name not in known]
        targets = {alias: target for alias, target, _ in _moves(self.before.assembly)}
        found = [
            LostModels(alias=alias, before=targets[alias], after=target, models=lost)
            for alias, target, not_needed in _moves(self.after.assembly)
            if targets.get(alias, target) != target
            and (lost := tuple(name for name in leaving if self._loses(name, not_needed)))
        ]
        return list(dict.fromkeys(found))

    def _loses(self, name: str, not_needed: Collection[str]) -> bool:
        if published_name(name) in not_needed:
            return False
        # A form may have been published under another name, which only its declaration has.
        return FORM_MARK in name or self.published is None or name in self.published


def _moves(assembly: Assembly) -> list[tuple[str, str, list[str]]]:
    """Return the alias, the target and the retired models of each check before a fleet moves."""
    checks = [each.properties for each in assembly.of_type("Custom::TritonNames")]
    return [
        (str(given.get("Alias")), str(given.get("Target")), [*map(str, given.get("NotNeeded", ()))])
        for given in checks
    ]


def _costs(revision: Revision) -> dict[str, Estimate]:
    models = revision.declared.count
    estimates = {fleet.name: fleet.cost(models=models) for fleet in fleets(revision.assembly)}
    return {name: estimate for name, estimate in estimates.items() if estimate is not None}


def targets(assembly: Assembly) -> list[str]:
    """The targets of the build projects, such as "A10G and Triton 25.09"."""
    found = set()
    for project in assembly.of_type("AWS::CodeBuild::Project"):
        variables = project.properties.get("Environment", {}).get("EnvironmentVariables", ())
        given = {each["Name"]: each["Value"] for each in variables}
        if "FLEET_RELEASE" in given:
            found.add(f"{given.get('FLEET_GPU', 'CPUs')} and Triton {given['FLEET_RELEASE']}")
    return sorted(found)


def _watching_change(before: Assembly, after: Assembly) -> Watching:
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
