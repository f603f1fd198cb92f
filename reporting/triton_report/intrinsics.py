"""CloudFormation's functions in a template: what they refer to, and how they read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from triton_report.assembly import Assembly, Key

_PLACEHOLDER = re.compile(r"\$\{([^!][^}]*)\}")


def references(value: Any, stack: str) -> Iterator[Key]:
    """The resources of its own stack that a value refers to."""
    if isinstance(value, Mapping):
        for function, argument in value.items():
            if function == "Ref":
                yield stack, str(argument)
            elif function == "Fn::GetAtt":
                yield stack, str(argument[0] if isinstance(argument, list) else argument.partition(".")[0])
            elif function == "Fn::Sub":
                text, given = argument if isinstance(argument, list) else (argument, {})
                yield from ((stack, name.partition(".")[0]) for name in _PLACEHOLDER.findall(text))
                yield from references(given, stack)
            else:
                yield from references(argument, stack)
    elif isinstance(value, list):
        for each in value:
            yield from references(each, stack)


def written(value: Any, stack: str, assembly: Assembly) -> str:
    """A value as a person would write it: `${Repository/Bucket.Arn}/models/*`."""
    if isinstance(value, Mapping) and len(value) == 1:
        (function, argument), *_ = value.items()
        if function in _WRITERS:
            return _WRITERS[function](argument, stack, assembly)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        inside = (f"{name}: {written(each, stack, assembly)}" for name, each in value.items())
        return "{" + ", ".join(inside) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(written(each, stack, assembly) for each in value) + "]"
    return str(value)


def _named(logical_id: str, stack: str, assembly: Assembly) -> str:
    resource = assembly.resources.get((stack, logical_id))
    return resource.path if resource is not None else logical_id


def _ref(argument: Any, stack: str, assembly: Assembly) -> str:
    return f"${{{_named(argument, stack, assembly)}}}"


def _get_att(argument: Any, stack: str, assembly: Assembly) -> str:
    name, attribute = argument if isinstance(argument, list) else argument.split(".", 1)
    return f"${{{_named(name, stack, assembly)}.{attribute}}}"


def _join(argument: Any, stack: str, assembly: Assembly) -> str:
    separator, parts = argument
    if not isinstance(parts, list):
        return f"${{join {written(parts, stack, assembly)}}}"
    return str(separator).join(written(each, stack, assembly) for each in parts)


def _import(argument: Any, stack: str, assembly: Assembly) -> str:
    """Return the value of another stack's export."""
    name = written(argument, stack, assembly)
    if name not in assembly.exports:
        return f"${{{name}}}"
    other, value = assembly.exports[name]
    return written(value, other, assembly)


def _find_in_map(argument: Any, stack: str, assembly: Assembly) -> str:
    return f"${{{written(argument[-1], stack, assembly)}}}"


def _sub(argument: Any, stack: str, assembly: Assembly) -> str:
    text = argument[0] if isinstance(argument, list) else argument
    return _PLACEHOLDER.sub(lambda found: f"${{{_named(found[1], stack, assembly)}}}", text)


_WRITERS = {
    "Ref": _ref,
    "Fn::GetAtt": _get_att,
    "Fn::FindInMap": _find_in_map,
    "Fn::Join": _join,
    "Fn::ImportValue": _import,
    "Fn::Sub": _sub,
}
