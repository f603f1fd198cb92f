"""Updates a stack's resources to match a template, in dependency order, or rolls them back.

moto creates resources while it resolves references. It updates a resource only when the resource's own entry
in the template has changed, and removes before it adds. CloudFormation first resolves references and compares
properties. It replaces a resource when a property changes that its registry marks as create-only, passes the
new identity on to all references, and cleans up last. The difference matters here: a changed model replaces
its endpoint configuration and updates the endpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.parsing import LazyDict, ResourceMap

from embedded_aws.cloudformation.functions import condition_holds, evaluate, in_order, needed_by
from embedded_aws.cloudformation.resource import (
    Call,
    Identity,
    PartiallyCreatedError,
    Properties,
    ResourceType,
    UnsupportedUpdateError,
)
from embedded_aws.cloudformation.schemas import must_replace, violations, with_strings
from embedded_aws.cloudformation.template import parameter_values

_INVALID = "Properties validation failed for resource {} with message:\n[{}]"

Template = Mapping[str, Any]
Journal = Callable[[str, str, str, str, str | None], None]
"""Records an event: logical id, type, physical id, status and reason."""


class DeploymentError(Exception):
    """A resource could not be created, updated or resolved. The events show the message as the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """The current state of a stack's resource. moto's parser and responses use these attribute names.

    It stays when it leaves the stack with `retain`, when its creation is rolled back with `retain_created`,
    and when another resource replaces it with `retain_replaced`. `failed` is for a creation without a
    rollback.
    """

    logical_resource_id: str
    cf_resource_type: str
    kind: ResourceType
    identity: Identity | None
    properties: Properties
    retain: bool
    retain_created: bool
    retain_replaced: bool
    failed: bool = False

    @property
    def physical_resource_id(self) -> str:
        return self.identity.physical_id if self.identity else ""

    def get_cfn_attribute(self, name: str) -> str:
        if self.identity is None:
            return ""
        if name not in self.identity.attributes:
            known = f"{self.cf_resource_type} {self.logical_resource_id}"
            raise DeploymentError(f"{known} has no attribute {name} in the embedded AWS")
        return self.identity.attributes[name]


class StackResources(ResourceMap):
    """moto's map of a stack's parameters, mappings and conditions, with this engine's resources."""

    def __getitem__(self, key: str) -> Any:
        """Return the target of a `Ref`; fail for a resource that a condition leaves out."""
        if key in self._parsed_resources:
            return self._parsed_resources[key]
        where = "in the Resources block of the template"
        msg = f"Template format error: Unresolved resource dependencies [{key}] {where}"
        raise ValidationError(message=msg)

    def __len__(self) -> int:
        return len(self.resources)

    @property
    def resources(self) -> list[str]:
        return [name for name, found in self._parsed_resources.items() if isinstance(found, Deployed)]

    @property
    def deployed(self) -> dict[str, Deployed]:
        return {name: self._parsed_resources[name] for name in self.resources}

    @property
    def declared(self) -> dict[str, Any]:
        """The template's resources by logical id, without those that a condition leaves out."""
        return {
            name: resource
            for name, resource in self._resource_json_map.items()
            if "Condition" not in resource or self.lazy_condition_map[resource["Condition"]]
        }

    def load(self) -> None:
        """Do nothing: moto loads before a stack has its template."""

    def load_parameters(self) -> None:
        """Set the values of the parameters. moto splits only lists that are given."""
        self.resolved_parameters = parameter_values(
            self._template.get("Parameters", {}),
            self.input_parameters,
            account=self._account_id,
            region=self._region_name,
        )
        self._parsed_resources.update(self.resolved_parameters)

    def load_conditions(self) -> None:
        """Evaluate the conditions. moto compares numbers and strings as different."""
        self.lazy_condition_map = LazyDict()
        for name, condition in self._template.get("Conditions", {}).items():
            self.lazy_condition_map[name] = partial(condition_holds, condition, self)

    def read(self, template: Template, parameters: Mapping[str, Any]) -> None:
        """Switch to another template, with its parameters, mappings and conditions; the resources stay."""
        kept = self.deployed
        pseudo = {name: value for name, value in self._parsed_resources.items() if name.startswith("AWS::")}
        self._parsed_resources = {**pseudo, **kept}
        self.resolved_parameters = {}
        self._template = dict(template)
        self._resource_json_map = template.get("Resources", {})
        self.input_parameters = dict(parameters)
        self.load_mapping()
        self.transform_mapping()
        self.load_parameters()
        self.load_conditions()

    def put(self, resource: Deployed) -> None:
        self._parsed_resources[resource.logical_resource_id] = resource

    def drop(self, logical_id: str) -> None:
        self._parsed_resources.pop(logical_id, None)

    def resolve(self, value: Any) -> Any:
        return evaluate(value, self)


class Deployment:
    def __init__(
        self,
        resources: StackResources,
        *,
        types: Callable[[str], ResourceType],
        call: Callable[[str], Call],
        journal: Journal,
    ) -> None:
        self._resources = resources
        self._types = types
        self._call = call
        self._journal = journal
        self._reverts: list[tuple[str, Callable[[], None], Callable[[], None]]] = []
        self._removals: list[Callable[[], object]] = []
        self._obsolete: list[Deployed] = []
        self._former_order: list[str] = []
        self._still_needed: set[str] = set()
        self._left: list[str] = []
        self._partial: Deployed | None = None

    def apply(self, previous: Template) -> None:
        """Create, update and replace resources until the stack matches its template."""
        declared = self._resources.declared
        self._former_order = _deployed_order(previous, self._resources.deployed)
        for logical_id in in_order(declared, declared):
            self._call(logical_id).go_on()
            self._reconcile(logical_id, declared[logical_id])
        leaving = [found for name, found in self._resources.deployed.items() if name not in declared]
        self._obsolete += [found for found in leaving if not found.retain]
        for found in leaving:
            self._revertible(found, partial(self._resources.put, found))
            self._resources.drop(found.logical_resource_id)

    def revert(self, *, skip: Collection[str] = ()) -> str:
        """Undo the updates that `apply` made, each after those that it depends on.

        CloudFormation first updates everything back, then deletes what it has created: see
        docs/CLOUDFORMATION.md of aws-cdk, read on 2026-11-25.
        """
        while self._reverts:
            logical_id, revert, leave = self._reverts[0]
            try:
                (leave if logical_id in skip else revert)()
            except DeploymentError:
                return logical_id
            del self._reverts[0]
        return ""

    def remove_created(self) -> list[str]:
        """Delete what `apply` created, newest first. Returns the resources that could not be deleted.

        The events show the failures. A resource that stays keeps its dependencies.
        """
        while self._removals:
            self._removals.pop()()
        return self._left

    def stay(self) -> bool:
        """Keep everything as `apply` left it. Returns False after a replacement, which prevents this."""
        if self._obsolete:
            return False
        if self._partial is not None:
            self._resources.put(replace(self._partial, failed=True))
        return True

    def clean_up(self) -> list[str]:
        rank = {name: number for number, name in enumerate(self._former_order)}
        obsolete = sorted(self._obsolete, key=lambda found: rank[found.logical_resource_id], reverse=True)
        return [reason for found in obsolete if (reason := self._remove(found))]

    def delete_all(self, template: Template) -> list[str]:
        """Delete every resource that the template does not retain, dependents first. Returns the failures."""
        deployed = self._resources.deployed
        failures = []
        for logical_id in reversed(_deployed_order(template, deployed)):
            found = deployed[logical_id]
            reason = "" if found.retain else self._remove(found)
            if reason:
                failures.append(reason)
            else:
                self._resources.drop(logical_id)
        return failures

    def _reconcile(self, logical_id: str, declared: Mapping[str, Any]) -> None:
        type_name = declared["Type"]
        before = self._resources.deployed.get(logical_id)
        wanted = Deployed(
            logical_resource_id=logical_id,
            cf_resource_type=type_name,
            kind=self._types(type_name),
            identity=None,
            properties=self._resolved(logical_id, type_name, declared),
            retain=declared.get("DeletionPolicy") in ("Retain", "RetainExceptOnCreate"),
            retain_created=declared.get("DeletionPolicy") == "Retain",
            retain_replaced=declared.get("UpdateReplacePolicy") == "Retain",
        )
        if before is None or before.identity is None:
            self._create(wanted)
        elif before.failed:
            self._remove(before)
            self._create(wanted)
        elif before.cf_resource_type != type_name or must_replace(
            type_name, before.properties, wanted.properties
        ):
            self._replace(before, wanted)
        elif before.properties != wanted.properties:
            self._update(before, before.identity, wanted)
        else:
            self._resources.put(replace(wanted, identity=before.identity))

    def _resolved(self, logical_id: str, type_name: str, declared: Mapping[str, Any]) -> Properties:
        try:
            evaluated = self._resources.resolve(declared.get("Properties", {}))
            resolved = with_strings(type_name, evaluated)
            if wrong := violations(type_name, resolved):
                raise DeploymentError(_INVALID.format(logical_id, ", ".join(wrong)))
        except Exception as error:
            reason = reason_of(error)
            verb = "UPDATE" if logical_id in self._resources.deployed else "CREATE"
            self._journal(logical_id, type_name, "", f"{verb}_FAILED", reason)
            raise DeploymentError(reason) from error
        return resolved

    def _create(self, wanted: Deployed) -> None:
        call = self._call(wanted.logical_resource_id)
        try:
            identity = self._attempt("CREATE", wanted, lambda: wanted.kind.create(call, wanted.properties))
        except DeploymentError as error:
            if isinstance(error.__cause__, PartiallyCreatedError):
                self._partial = replace(wanted, identity=error.__cause__.identity)
                self._removals.append(partial(self._remove, self._partial))
            raise
        created = replace(wanted, identity=identity)
        self._resources.put(created)
        self._removals.append(partial(self._uncreate, created))

    def _uncreate(self, created: Deployed) -> None:
        """Remove a created resource, unless its policy retains it or a resource that stays needs it."""
        logical_id = created.logical_resource_id
        if logical_id in self._still_needed:
            return
        if not created.retain_created and self._remove(created):
            self._left.append(logical_id)
            self._still_needed |= needed_by(self._resources.declared, logical_id)
            return
        if self._resources.deployed.get(logical_id) is created:
            self._resources.drop(logical_id)

    def _replace(self, before: Deployed, wanted: Deployed) -> None:
        self._create(wanted)
        self._revertible(before, lambda: self._resources.put(before))
        if not before.retain_replaced:
            self._obsolete.append(before)

    def _update(self, before: Deployed, identity: Identity, wanted: Deployed) -> None:
        call, kind = self._call(wanted.logical_resource_id), wanted.kind
        current = kept = identity

        def revert() -> None:
            nonlocal kept
            if current.physical_id == identity.physical_id:
                kept = self._attempt(
                    "UPDATE", before, lambda: kind.update(call, current, wanted.properties, before.properties)
                )
            self._resources.put(replace(before, identity=kept))

        def remove() -> None:
            if current.physical_id != kept.physical_id:
                self._remove(replace(wanted, identity=current))

        # Registered first, so that an update that fails halfway is undone too.
        self._revertible(before, revert)
        self._removals.append(remove)
        try:
            current = self._attempt(
                "UPDATE", wanted, lambda: kind.update(call, identity, before.properties, wanted.properties)
            )
        except DeploymentError as error:
            if isinstance(error.__cause__, UnsupportedUpdateError):
                self._reverts.pop()
            raise
        self._resources.put(replace(wanted, identity=current))
        # Another id after an update means another resource: this is how a custom resource replaces itself.
        if current.physical_id != identity.physical_id and not before.retain_replaced:
            self._obsolete.append(before)

    def _revertible(self, before: Deployed, revert: Callable[[], None]) -> None:
        self._reverts.append((before.logical_resource_id, revert, lambda: self._resources.put(before)))

    def _attempt(self, verb: str, wanted: Deployed, action: Callable[[], Identity]) -> Identity:
        """Run an action and record its events. Any error fails the resource, with the service's message."""
        logical_id, type_name = wanted.logical_resource_id, wanted.cf_resource_type
        self._journal(logical_id, type_name, "", f"{verb}_IN_PROGRESS", None)
        try:
            identity = action()
        except Exception as error:
            reason = reason_of(error)
            self._journal(logical_id, type_name, "", f"{verb}_FAILED", reason)
            raise DeploymentError(f"{type_name} {logical_id}: {reason}") from error
        self._journal(logical_id, type_name, identity.physical_id, f"{verb}_COMPLETE", None)
        return identity

    def _remove(self, found: Deployed) -> str:
        """Delete a resource. Returns the reason for a failure; an empty string on success."""
        if found.identity is None:
            return ""
        note = (found.logical_resource_id, found.cf_resource_type, found.physical_resource_id)
        self._journal(*note, "DELETE_IN_PROGRESS", None)
        try:
            found.kind.delete(self._call(found.logical_resource_id), found.identity, found.properties)
        except Exception as error:  # noqa: BLE001 (the events show the reason; the others are still deleted)
            reason = reason_of(error)
            self._journal(*note, "DELETE_FAILED", reason)
            return f"{found.cf_resource_type} {found.logical_resource_id}: {reason}"
        self._journal(*note, "DELETE_COMPLETE", None)
        return ""


def _deployed_order(template: Template, deployed: Iterable[str]) -> list[str]:
    declared = template.get("Resources", {})
    return in_order({name: declared.get(name, {}) for name in deployed}, deployed)


def reason_of(error: Exception) -> str:
    """Return an error as the reason of an event, marked as internal if it is not a service's."""
    text = getattr(error, "message", "") or str(error) or getattr(error, "description", "")
    if isinstance(error, KeyError):
        return f"Internal failure of the embedded AWS: it needs {text}"
    if isinstance(error, AttributeError | IndexError | TypeError):
        return f"Internal failure of the embedded AWS: {text}"
    return text or type(error).__name__
