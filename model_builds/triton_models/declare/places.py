"""The lines of declared values in their build.py, and their wrong arguments.

The file is parsed only if it has a mistake, so reading a valid declaration does not pay for this.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from triton_models.base.errors import Problem
from triton_models.base.matching import advice, fits, with_kind
from triton_models.base.suggest import did_you_mean
from triton_models.declare.mistakes import BAD_DECLARATION, field_types


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of a call that creates a declared value.

    Attributes:
        name: The name of the field; "argument N" for a positional argument beyond the last field.
        value: The expression in the source code.
    """

    owner: type
    name: str
    value: ast.expr
    line: int


class Places:
    """The calls in one build.py that create declared values."""

    def __init__(self, path: Path, *, classes: Mapping[str, type]) -> None:
        self._path = path
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            tree = ast.Module(body=[], type_ignores=[])
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        self._calls = [(classes[_callee(call)], call) for call in calls if _callee(call) in classes]
        self._arguments = [each for owner, call in self._calls for each in _arguments(owner, call)]

    def of(self, owner: object, field: str) -> str:
        """Return file:line of a field of a declared value, or only the file if the line is ambiguous."""
        candidates = [each for each in self._arguments if each.owner is type(owner) and each.name == field]
        value = getattr(owner, field)
        same = [each for each in candidates if _literal(each.value) == (value,)] or candidates
        if len(same) == 1:
            return f"{self._path}:{same[0].line}"
        calls = [call.lineno for kind, call in self._calls if kind is type(owner)]
        return f"{self._path}:{calls[0]}" if len(calls) == 1 else str(self._path)

    def wrong_arguments(self) -> Iterator[Problem]:
        """Yield problems with arguments: unknown ones, missing ones, and literals of the wrong type."""
        for each in self._arguments:
            known = field_types(each.owner)
            literal = _literal(each.value)
            if each.name not in known:
                yield self._problem(
                    f"{each.owner.__name__} has no {each.name!r}",
                    each.line,
                    fix=did_you_mean(
                        each.name, known, otherwise=f"remove it, or use one of {', '.join(known)}"
                    ),
                )
            elif literal and not fits(literal[0], known[each.name]):
                yield self._problem(
                    f"{each.owner.__name__}.{each.name} is {with_kind(literal[0])}",
                    each.line,
                    fix=advice(literal[0], known[each.name]),
                )
        yield from self._missing()

    def _missing(self) -> Iterator[Problem]:
        for owner, call in self._calls:
            given = {each.name for each in _arguments(owner, call)}
            unpacked = any(keyword.arg is None for keyword in call.keywords)
            missing = [name for name in _required(owner) if name not in given]
            if missing and not unpacked:
                yield self._problem(
                    f"{owner.__name__} lacks {', '.join(missing)}",
                    call.lineno,
                    fix=f"write {owner.__name__}({', '.join(f'{name}=...' for name in _required(owner))})",
                )

    def _problem(self, what: str, line: int, *, fix: str) -> Problem:
        return BAD_DECLARATION.problem(what=what, where=f"{self._path}:{line}", fix=fix)


def _callee(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _arguments(owner: type, call: ast.Call) -> Iterator[Argument]:
    names = list(field_types(owner))
    for number, value in enumerate(call.args):
        if isinstance(value, ast.Starred):
            break
        name = names[number] if number < len(names) else f"argument {number + 1}"
        yield Argument(owner=owner, name=name, value=value, line=value.lineno)
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield Argument(owner=owner, name=keyword.arg, value=keyword.value, line=keyword.value.lineno)


def _literal(node: ast.expr) -> tuple[Any] | None:
    try:
        return (ast.literal_eval(node),)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _required(owner: Any) -> list[str]:
    return [
        each.name for each in fields(owner) if each.default is MISSING and each.default_factory is MISSING
    ]
