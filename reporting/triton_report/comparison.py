"""The comparison of two revisions: the content of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from triton_models.declare.reading import FORM_MARK, published_name
from triton_models.facts.cost import Estimate
from triton_report.assembly import Assembly, SynthesisWarning
from triton_report.changes import Change, changes
from triton_report.declared import ModelChange, model_changes
from triton_report.permissions import PermissionChange, permission_change
from triton_report.revisions import Revision
from triton_report.settings import Setting, setting_changes
from triton_report.spending import Fleet, fleets
from triton_report.watching import Watching, watching_change


@dataclass(frozen=True, slots=True, kw_only=True)
class LostModels:
    """Models that leave the build job while the fleet of an alias moves from one target to another."""

    alias: str
    before: str
    after: str
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Move:
    """The check of the names of a fleet, which a deployment runs before the fleet moves."""

    alias: str
    target: str
    not_needed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The differences between two revisions.

    Attributes:
        one_library: True if the base requires another version of the library, and was synthesized with this
            one all the same.
        leaving: Models that the build job no longer makes, each a folder or `folder:form`.
        published: The current artifact of each model, such as "95.4 MB, for A10G and Triton 25.09"; None
            if not requested.
    """

    before_name: str
    after_name: str
    before: Assembly
    after: Assembly
    settings: tuple[Setting, ...]
    changes: tuple[Change, ...]
    permissions: PermissionChange
    watching: Watching
    models: tuple[ModelChange, ...]
    toolkit_changed: bool
    models_before: int
    models_after: int
    leaving: tuple[str, ...] = ()
    one_library: bool = False
    published: Mapping[str, str] | None = None

    @property
    def warnings(self) -> list[SynthesisWarning]:
        """The new warnings of the synthesis."""
        return sorted(self.after.warnings - self.before.warnings, key=lambda each: (each.path, each.text))

    @property
    def stacks_left(self) -> list[str]:
        """Stacks that are no longer in the app. A deployment does not touch them: they run on."""
        return sorted(self.before.stacks - self.after.stacks)

    @property
    def fleets_after(self) -> list[Fleet]:
        """The variants afterwards."""
        return fleets(self.after)

    @property
    def costs_before(self) -> dict[str, Estimate]:
        """The previous cost of each variant with a known price."""
        return _costs(self.before, self.models_before)

    @property
    def costs_after(self) -> dict[str, Estimate]:
        """The new cost of each variant, including those of orphaned stacks."""
        behind = {
            f"{fleet.name} of {fleet.stack}, orphaned": estimate
            for fleet in fleets(self.before)
            if fleet.stack in self.stacks_left and (estimate := fleet.cost(models=0)) is not None
        }
        return _costs(self.after, self.models_after) | behind

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
        targets = {each.alias: each.target for each in _moves(self.before)}
        found = [
            LostModels(alias=each.alias, before=targets[each.alias], after=each.target, models=lost)
            for each in _moves(self.after)
            if each.alias in targets
            and targets[each.alias] != each.target
            and (lost := tuple(name for name in self.leaving if self._loses(name, each.not_needed)))
        ]
        return list(dict.fromkeys(found))

    def _loses(self, name: str, not_needed: Sequence[str]) -> bool:
        if published_name(name) in not_needed:
            return False
        # A form may have been published under another name, which only its declaration has.
        return FORM_MARK in name or self.published is None or name in self.published

    @property
    def targets_before(self) -> list[str]:
        """The previous target of the models, such as "A10G and Triton 25.09"."""
        return _targets(self.before)

    @property
    def targets_after(self) -> list[str]:
        """The new target of the models."""
        return _targets(self.after)


def compare(before: Revision, after: Revision, *, published: Mapping[str, str] | None = None) -> Comparison:
    """Put two revisions side by side."""
    return Comparison(
        before_name=before.name,
        after_name=after.name,
        before=before.assembly,
        after=after.assembly,
        settings=tuple(setting_changes(before.assembly, after.assembly, before.declared, after.declared)),
        changes=tuple(changes(before.assembly, after.assembly)),
        permissions=permission_change(before.assembly, after.assembly),
        watching=watching_change(before.assembly, after.assembly),
        models=tuple(model_changes(before.declared, after.declared)),
        toolkit_changed=before.declared.toolkit != after.declared.toolkit,
        models_before=before.declared.count,
        models_after=after.declared.count,
        leaving=tuple(name for name in before.declared.names if name not in after.declared.names),
        one_library=before.declared.library != after.declared.library and before.python == after.python,
        published=published,
    )


def _moves(assembly: Assembly) -> Iterator[_Move]:
    for each in assembly.of_type("Custom::TritonNames"):
        yield _Move(
            alias=str(each.properties.get("Alias")),
            target=str(each.properties.get("Target")),
            not_needed=tuple(map(str, each.properties.get("NotNeeded", ()))),
        )


def _costs(assembly: Assembly, models: int) -> dict[str, Estimate]:
    estimates = {fleet.name: fleet.cost(models=models) for fleet in fleets(assembly)}
    return {name: estimate for name, estimate in estimates.items() if estimate is not None}


def _targets(assembly: Assembly) -> list[str]:
    """Return the targets of the build projects."""
    found = []
    for project in assembly.of_type("AWS::CodeBuild::Project"):
        variables = project.properties.get("Environment", {}).get("EnvironmentVariables", ())
        given = {each["Name"]: each["Value"] for each in variables}
        if "FLEET_RELEASE" in given:
            found.append(f"{given.get('FLEET_GPU', 'CPUs')} and Triton {given['FLEET_RELEASE']}")
    return sorted(set(found))
