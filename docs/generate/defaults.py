"""A griffe extension that makes the reference readable.

Defaults are values instead of names of constants, and the fields of a dataclass have their defaults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import griffe

_FIELD = re.compile(
    r"field\((?:default_factory=lambda: |default=)(?P<value>.+)\)|field\(default_factory=(?P<factory>\w+)\)"
)
_EMPTY = {"dict": "{}", "list": "[]", "tuple": "()", "MappingProxyType({})": "{}"}
_DEEPEST = 5  # constants that name other constants


class ReadableDefaults(griffe.Extension):
    """Replaces the names of constants by their values."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **_: Any) -> None:
        """Visit every function and dataclass of a package once it is loaded."""
        for each in _objects(pkg):
            if isinstance(each, griffe.Function):
                for parameter in each.parameters:
                    parameter.default = _readable(parameter.default, loader)
            elif isinstance(each, griffe.Class) and "dataclass" in each.labels | _decorators(each):
                for member in each.attributes.values():
                    member.value = _readable(member.value, loader)
                if each.docstring is not None:
                    each.docstring.value = each.docstring.value.replace("\nAttributes:\n", "\nArgs:\n")


def _objects(within: griffe.Object) -> Iterator[griffe.Object]:
    for member in within.members.values():
        if not member.is_alias and isinstance(member, griffe.Object):
            yield member
            yield from _objects(member)


def _decorators(each: griffe.Class) -> set[str]:
    return {decorator.callable_path.rpartition(".")[2] for decorator in each.decorators}


def _readable(value: str | griffe.Expr | None, loader: griffe.GriffeLoader) -> str | griffe.Expr | None:
    """Return the value behind the name of a constant, and the value that `field()` makes."""
    for _ in range(_DEEPEST):
        if not isinstance(value, griffe.ExprName):
            break
        try:
            constant = loader.modules_collection[value.canonical_path]
        except (KeyError, griffe.AliasResolutionError):
            break
        if not isinstance(constant, griffe.Attribute) or constant.value is None:
            break
        value = constant.value
    text = " ".join(str(value).split())
    made = _FIELD.fullmatch(text)
    if made is None:
        return _EMPTY.get(text, value)
    return made["value"] or _EMPTY.get(made["factory"], f"{made['factory']}()")
