"""Mistakes in declared values: wrong types, and mistakes that each class finds in its own fields."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass
from typing import Any, Union, get_args, get_type_hints

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.matching import advice, matcher, with_kind

BAD_DECLARATION = Check(id="bad-declaration", source=FROM_ARGUMENTS)

_NONE = type(None)
_UNIONS = (Union, types.UnionType)


@dataclass(frozen=True, slots=True)
class Mistake:
    """A problem of a declared value, whose place is found when it is reported.

    Attributes:
        field: The name of the wrong field.
        what: The given value, with its name.
        fix: The next thing to do, with the accepted values.
        owner: The value with the field, if it is not the value that reports the mistake.
    """

    field: str
    what: str
    _: KW_ONLY
    fix: str
    owner: object = None


def find_mistakes(*declared: object) -> list[tuple[object, Mistake]]:
    """Return every mistake in declared values and the values in them, each with the value it belongs to.

    Classes with a method `mistakes` check their own fields. A value that several others contain is checked
    only once.
    """
    found: list[tuple[object, Mistake]] = []
    for each in declared_values(*declared):
        mistyped = [(each, mistake) for mistake in _type_mistakes(each)]
        found += mistyped
        if hasattr(each, "mistakes"):
            found += _own_mistakes(
                each, {mistake.field for _, mistake in mistyped}, something_wrong=bool(found)
            )
    return found


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
    """Return the fields of a declared class that can hold declared values."""
    return tuple(name for name, hint in field_types(declared).items() if _can_hold(hint))


def _can_hold(hint: Any) -> bool:
    return is_dataclass(hint) or any(_can_hold(each) for each in get_args(hint) if each is not ...)


@functools.cache
def _field_matchers(declared: Any) -> tuple[tuple[str, Callable[[Any], bool], Any], ...]:
    """Return the name, test and type of each field of a declared class."""
    return tuple((name, matcher(hint), hint) for name, hint in field_types(declared).items())


def _type_mistakes(declared: object) -> list[Mistake]:
    owner: Any = type(declared)
    return [
        Mistake(
            name,
            f"{owner.__name__}.{name} is {with_kind(getattr(declared, name))}",
            fix=advice(getattr(declared, name), hint),
        )
        for name, matches, hint in _field_matchers(owner)
        if not matches(getattr(declared, name))
    ]


def _children(declared: object) -> list[object]:
    """Return the declared values in a value's fields."""
    found: list[object] = []
    owner: Any = type(declared)
    for name in _holders(owner):
        value = getattr(declared, name)
        if not isinstance(value, list | tuple):
            value = tuple(value.values()) if isinstance(value, Mapping) else (value,)
        found += [each for each in value if hasattr(type(each), "__dataclass_fields__")]
    return found
