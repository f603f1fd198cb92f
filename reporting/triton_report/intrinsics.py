"""CloudFormation's functions in a template: what they refer to, and how they read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from triton_report.assembly import Assembly, Key

_PLACEHOLDER = re.compile(r"\$\{([^!][^}]*)\}")


def references(value: Any, stack: str) -> Iterator[Key]:
    """The resources of its own stack that a value refers to."""
    parts = value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    for function, argument in parts:
        match function, argument:
            case (("Ref" | "Fn::GetAtt"), argument):
                name = argument[0] if isinstance(argument, list) else argument
                yield stack, str(name).partition(".")[0]
            case "Fn::Sub", argument:
                text, given = argument if isinstance(argument, list) else (argument, {})
                yield from ((stack, name.partition(".")[0]) for name in _PLACEHOLDER.findall(text))
                yield from references(given, stack)
            case _:
                yield from references(argument, stack)


def written(value: Any, stack: str, assembly: Assembly) -> str:
    """A value as a person would write it: `${Repository/Bucket.Arn}/models/*`."""
    if (text := _function(value, stack, assembly)) is not None:
        return text
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{name}: {written(each, stack, assembly)}" for name, each in value.items()) + "}"
        )
    if isinstance(value, list):
        return f"[{', '.join(written(each, stack, assembly) for each in value)}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _function(value: Any, stack: str, assembly: Assembly) -> str | None:
    def plain(part: Any) -> str:
        return written(part, stack, assembly)

    def named(logical_id: str, *attribute: str) -> str:
        resource = assembly.resources.get((stack, logical_id))
        return f"${{{'.'.join((resource.path if resource is not None else logical_id, *attribute))}}}"

    match next(iter(value.items())) if isinstance(value, dict) and len(value) == 1 else ():
        case (("Ref" | "Fn::GetAtt"), argument):
            return named(*(argument if isinstance(argument, list) else argument.split(".", 1)))
        case "Fn::Join", [separator, parts]:
            is_list = isinstance(parts, list)
            return str(separator).join(map(plain, parts)) if is_list else f"${{join {plain(parts)}}}"
        case "Fn::Sub", argument:
            text = argument[0] if isinstance(argument, list) else argument
            return _PLACEHOLDER.sub(lambda found: named(found[1]), text)
        case "Fn::FindInMap", [*_, key]:
            return f"${{{plain(key)}}}"
        case "Fn::ImportValue", argument:
            other, given = assembly.exports.get(plain(argument), (stack, f"${{{plain(argument)}}}"))
            return written(given, other, assembly)
        case _:
            return None
