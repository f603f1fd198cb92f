"""References between the resources of a template, and the resulting order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from graphlib import TopologicalSorter
from typing import Any

_SUBSTITUTION = re.compile(r"\$\{([^!}.]+)[^}]*\}")


def in_order(resources: Mapping[str, Mapping[str, Any]], wanted: Iterable[str]) -> list[str]:
    """Return the wanted logical ids, each after those that it refers to or depends on."""
    chosen = list(wanted)
    known = set(chosen)
    graph = {name: sorted(set(dependencies(resources[name])) & known) for name in chosen}
    return list(TopologicalSorter(graph).static_order())


def needed_by(resources: Mapping[str, Mapping[str, Any]], name: str) -> set[str]:
    """Return every logical id that a resource refers to or depends on, directly or indirectly."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        new = set(dependencies(resources.get(waiting.pop(), {}))) & resources.keys() - found
        found |= new
        waiting += new
    return found


def values_of(function: str, value: Any) -> Iterator[Any]:
    """Yield every argument of an intrinsic function, such as `Fn::ImportValue`, anywhere in a template."""
    if isinstance(value, Mapping):
        if function in value:
            yield value[function]
        for item in value.values():
            yield from values_of(function, item)
    elif isinstance(value, list):
        for item in value:
            yield from values_of(function, item)


def dependencies(resource: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names that a resource refers to or depends on."""
    declared = resource.get("DependsOn", [])
    yield from [declared] if isinstance(declared, str) else declared
    properties = resource.get("Properties", {})
    yield from (name for name in values_of("Ref", properties) if isinstance(name, str))
    for attribute in values_of("Fn::GetAtt", properties):
        yield attribute.split(".")[0] if isinstance(attribute, str) else attribute[0]
    for text in values_of("Fn::Sub", properties):
        template, local = (text, ()) if isinstance(text, str) else text
        yield from (name for name in _SUBSTITUTION.findall(template) if name not in local)
