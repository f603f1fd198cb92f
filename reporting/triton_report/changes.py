"""The resources that differ between two assemblies, and what CloudFormation does about each."""

from __future__ import annotations

import enum
import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from triton_report.assembly import Assembly, Key, Resource
from triton_report.intrinsics import references

# Schemas differ between regions only by properties that have not arrived everywhere.
_REGION = "us-east-1"
# The keys that identify entries of lists whose order does not matter to CloudFormation.
_KEYS = ("Sid", "Name", "Key", "VariantName")


class Effect(enum.Enum):
    """The fate of a resource."""

    ADDED = "added"
    CHANGED = "changed"
    RENAMED = "renamed"
    """The same resource under another id: to CloudFormation a new one, and one to delete."""
    REPLACED = "replaced"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyChange:
    """A property that differs, such as "ProductionVariants/0/InstanceType"; None where it is not there."""

    path: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A resource that differs, as it will be, or as it was if it is removed.

    Its cause is the path of another resource, if it changes only because that one does.
    """

    effect: Effect
    resource: Resource
    before: Resource | None = None
    properties: tuple[PropertyChange, ...] = ()
    cause: str | None = None


def changes(before: Assembly, after: Assembly) -> list[Change]:
    """Everything that differs, in the order of the templates, with what is removed last.

    A stack that is no longer in the app is not among it: a deployment leaves it as it is.
    """
    new_ids = renamed(before, after)
    found: dict[Key, Change] = {}
    for key, resource in after.resources.items():
        old = before.resources.get(key)
        if key in new_ids:
            was = before.resources[new_ids[key]]
            found[key] = Change(effect=Effect.RENAMED, resource=resource, before=was)
        elif old is None:
            found[key] = Change(effect=Effect.ADDED, resource=resource)
        elif old.type != resource.type:
            found[key] = Change(effect=Effect.REPLACED, resource=resource, before=old)
        elif properties := tuple(_differences(old.properties, resource.properties)):
            effect = Effect.REPLACED if _replaces(resource.type, properties) else Effect.CHANGED
            found[key] = Change(effect=effect, resource=resource, before=old, properties=properties)
    _follow(found, before, after)
    kept = {*after.resources, *new_ids.values()}
    removed = [
        Change(effect=Effect.REMOVED, resource=each, before=each)
        for key, each in before.resources.items()
        if key not in kept and each.stack in after.stacks
    ]
    return [found[key] for key in after.resources if key in found] + removed


def _replaces(type_name: str, properties: tuple[PropertyChange, ...]) -> bool:
    fixed = _create_only(type_name)
    return any(_within(change.path, name) for change in properties for name in fixed)


@functools.cache
def _create_only(type_name: str) -> frozenset[str]:
    """Return the properties whose change replaces a resource, such as "Target/Name", by AWS's own schemas.

    Empty for a type without a schema, such as a custom resource: what happens then, its own code decides.
    """
    from cfnlint.schema import ResourceNotFoundError  # type: ignore[import-untyped]
    from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER  # type: ignore[import-untyped]

    try:
        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(_REGION, type_name).schema
    except ResourceNotFoundError:
        return frozenset()
    return frozenset(path.removeprefix("/properties/") for path in schema.get("createOnlyProperties", ()))


def _within(path: str, name: str) -> bool:
    """Return whether a change of `path` affects the property `name`, in which a star denotes a list."""
    given, wanted = path.split("/"), name.split("/")
    return all(other in {one, "*"} for one, other in zip(given, wanted, strict=False))


def _differences(before: Any, after: Any, path: str = "") -> Iterator[PropertyChange]:
    if isinstance(before, Mapping) and isinstance(after, Mapping) and not _is_function(before, after):
        for name in [*before, *(name for name in after if name not in before)]:
            yield from _differences(before.get(name), after.get(name), f"{path}/{name}".lstrip("/"))
    elif (name := _key(before, after)) is not None:
        old, new = ({each[name]: each for each in listed} for listed in (before, after))
        yield from _differences(old, new, path)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(one, other, f"{path}/{index}".lstrip("/"))
    elif before != after:
        yield PropertyChange(path=path, before=before, after=after)


def _key(before: Any, after: Any) -> str | None:
    """Return the property that identifies entries of two lists, such as a variable's name."""
    return next((name for name in _KEYS if all(_is_unique(name, each) for each in (before, after))), None)


def _is_unique(name: str, entries: Any) -> bool:
    keys = [
        each.get(name) if isinstance(each, Mapping) else None
        for each in (entries if isinstance(entries, list) else [None])
    ]
    return all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys)


def _is_function(*values: Mapping[str, Any]) -> bool:
    return any(len(value) == 1 and next(iter(value)).startswith(("Fn::", "Ref")) for value in values)


def _follow(found: dict[Key, Change], before: Assembly, after: Assembly) -> None:
    """Add what changes because something that it refers to becomes another resource."""
    grown = True
    while grown:
        new = {key for key, change in found.items() if change.effect in {Effect.REPLACED, Effect.RENAMED}}
        grown = False
        for key, resource in after.resources.items():
            effect, cause = _consequence(resource, new)
            known = found.get(key)
            if effect is None or key not in before.resources or cause == key:
                continue
            if known is None:
                path = after.resources[cause].path if cause is not None else None
                old = before.resources[key]
                found[key] = Change(effect=effect, resource=resource, before=old, cause=path)
                grown = True
            elif known.effect is Effect.CHANGED and effect is Effect.REPLACED:
                found[key] = replace(known, effect=effect)
                grown = True


def _consequence(resource: Resource, new: set[Key]) -> tuple[Effect | None, Key | None]:
    """Return the fate of a resource whose properties in `new` differ, and the property that causes it."""
    fixed = {name.partition("/")[0] for name in _create_only(resource.type)}
    effect, cause = None, None
    for name, value in resource.properties.items():
        for key in references(value, resource.stack):
            if key in new:
                if name in fixed:
                    return Effect.REPLACED, key
                effect, cause = Effect.CHANGED, key
    return effect, cause


def renamed(before: Assembly, after: Assembly) -> dict[Key, Key]:
    """New resources that are old ones under another id: their new key, and their old one."""
    gone: dict[tuple[str, str, str], list[Key]] = {}
    for key, resource in before.resources.items():
        if key not in after.resources:
            gone.setdefault(_likeness(resource, before), []).append(key)
    found = {}
    for key, resource in after.resources.items():
        if key not in before.resources and (keys := gone.get(_likeness(resource, after))):
            found[key] = keys.pop(0)
    return found


def _likeness(resource: Resource, assembly: Assembly) -> tuple[str, str, str]:
    """A resource without ids: its own, and those of what it refers to."""
    text = json.dumps(resource.properties, sort_keys=True)
    for key in references(resource.properties, resource.stack):
        if (other := assembly.resources.get(key)) is not None:
            text = text.replace(json.dumps(key[1]), json.dumps(f"<{other.type}>"))
    return resource.stack, resource.type, text
