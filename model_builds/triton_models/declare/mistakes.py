"""Mistakes in declared values: wrong types, those that each class finds, and their lines in build.py.

The file is parsed only if it has a mistake, so reading a valid declaration does not pay for this.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import Problem
from triton_models.base.matching import advice, fits, matcher, with_kind
from triton_models.base.suggest import did_you_mean

BAD_DECLARATION = Check(id="bad-declaration", source=FROM_ARGUMENTS)


@dataclass(frozen=True, slots=True)
class Mistake:
    """A problem of a field, whose place is found when it is reported.

    The field is that of the value that reports the mistake, unless there is another owner.
    """

    field: str
    what: str
    _: KW_ONLY
    fix: str
    owner: object = None


def find_mistakes(*declared: object) -> list[tuple[object, Mistake]]:
    """Return every mistake in declared values and the values in them, each with the value it belongs to."""
    return mistakes_in(declared_values(*declared))


def mistakes_in(declared: Iterable[object]) -> list[tuple[object, Mistake]]:
    """Return the same for `declared_values`. Classes with a method `mistakes` check their own fields."""
    found: list[tuple[object, Mistake]] = []
    for each in declared:
        mistyped = _type_mistakes(each)
        fields_of_them = {mistake.field for mistake in mistyped}
        found += [(each, mistake) for mistake in (*mistyped, *_too_small(each, fields_of_them))]
        if hasattr(each, "mistakes"):
            found += _own_mistakes(each, fields_of_them, something_wrong=bool(found))
    return found


def _too_small(declared: Any, mistyped: Collection[str]) -> Iterator[Mistake]:
    for name, least in getattr(declared, "LEAST", {}).items():
        value = getattr(declared, name)
        if name not in mistyped and isinstance(value, int) and value < least:
            what = f"{type(declared).__name__}.{name} is {value}"
            yield Mistake(name, what, fix=f"use {least} or more, or remove it")


def declared_values(*declared: Any) -> list[object]:
    """Return these values and all declared values in them, each once, inner values before outer ones."""
    seen: dict[int, object] = {}

    def walk(value: object) -> None:
        for child in _children(value):
            if id(child) not in seen:
                walk(child)
        seen.setdefault(id(value), value)

    for each in declared:
        walk(each)
    return list(seen.values())


def _own_mistakes(
    declared: Any, mistyped: Collection[str], *, something_wrong: bool
) -> Iterator[tuple[object, Mistake]]:
    """Yield the mistakes that a value finds in its own fields, except those with a wrong type."""
    try:
        for mistake in declared.mistakes():
            if mistake.field not in mistyped:
                yield mistake.owner or declared, mistake
    except Exception:
        if not something_wrong:
            raise
        # A mistake that is already reported has caused this.


@functools.cache
def field_types(declared: Any) -> Mapping[str, Any]:
    """Return the type of each field of a declared class, by name."""
    hints = get_type_hints(declared)
    return {each.name: hints[each.name] for each in fields(declared)}


@functools.cache
def _holders(declared: Any) -> tuple[str, ...]:
    return tuple(name for name, hint in field_types(declared).items() if _can_hold(hint))


def _can_hold(hint: Any) -> bool:
    return is_dataclass(hint) or any(_can_hold(each) for each in get_args(hint) if each is not ...)


@functools.cache
def _field_matchers(declared: Any) -> tuple[tuple[str, Callable[[Any], bool], Any], ...]:
    return tuple((name, matcher(hint), hint) for name, hint in field_types(declared).items())


def _type_mistakes(declared: object) -> list[Mistake]:
    owner: Any = type(declared)
    found = []
    for name, matches, hint in _field_matchers(owner):
        value = getattr(declared, name)
        if not matches(value):
            what = f"{owner.__name__}.{name} is {with_kind(value)}"
            found.append(Mistake(name, what, fix=advice(value, hint)))
    return found


def _children(declared: object) -> list[object]:
    found: list[object] = []
    owner: Any = type(declared)
    for name in _holders(owner):
        value = getattr(declared, name)
        if not isinstance(value, list | tuple):
            value = tuple(value.values()) if isinstance(value, Mapping) else (value,)
        found += [each for each in value if hasattr(type(each), "__dataclass_fields__")]
    return found


class _Argument(NamedTuple):
    """An argument of a call that creates a declared value, named "argument N" beyond the last field."""

    owner: type
    name: str
    value: ast.expr


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
            return f"{self._path}:{same[0].value.lineno}"
        calls = [call.lineno for kind, call in self._calls if kind is type(owner)]
        return f"{self._path}:{calls[0]}" if len(calls) == 1 else str(self._path)

    def wrong_arguments(self) -> Iterator[Problem]:
        """Yield problems with arguments: unknown ones, missing ones, and literals of the wrong type."""
        for each in self._arguments:
            known = field_types(each.owner)
            literal = _literal(each.value)
            if each.name not in known:
                otherwise = f"remove it, or use one of {', '.join(known)}"
                fix = did_you_mean(each.name, known, otherwise=otherwise)
                yield self._problem(f"{each.owner.__name__} has no {each.name!r}", each.value, fix=fix)
            elif literal and not fits(literal[0], known[each.name]):
                what = f"{each.owner.__name__}.{each.name} is {with_kind(literal[0])}"
                yield self._problem(what, each.value, fix=advice(literal[0], known[each.name]))
        yield from self._missing()

    def _missing(self) -> Iterator[Problem]:
        for owner, call in self._calls:
            given = {each.name for each in _arguments(owner, call)}
            unpacked = any(keyword.arg is None for keyword in call.keywords)
            required = _required(owner)
            missing = [name for name in required if name not in given]
            if missing and not unpacked:
                fix = f"write {owner.__name__}({', '.join(f'{name}=...' for name in required)})"
                yield self._problem(f"{owner.__name__} lacks {', '.join(missing)}", call, fix=fix)

    def _problem(self, what: str, node: ast.expr, *, fix: str) -> Problem:
        return BAD_DECLARATION.problem(what=what, where=f"{self._path}:{node.lineno}", fix=fix)


def _callee(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _arguments(owner: type, call: ast.Call) -> Iterator[_Argument]:
    names = list(field_types(owner))
    for number, value in enumerate(call.args):
        if isinstance(value, ast.Starred):
            break
        name = names[number] if number < len(names) else f"argument {number + 1}"
        yield _Argument(owner, name, value)
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield _Argument(owner, keyword.arg, keyword.value)


def _literal(node: ast.expr) -> tuple[Any] | None:
    try:
        return (ast.literal_eval(node),)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _required(owner: Any) -> list[str]:
    return [
        each.name for each in fields(owner) if each.default is MISSING and each.default_factory is MISSING
    ]
