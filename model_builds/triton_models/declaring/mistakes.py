"""What is wrong with declared values: the types first, then what each class says about its own fields."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_NONE = type(None)
_UNIONS = (Union, types.UnionType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One field of a declared value that cannot stay as it is.

    Attributes:
        field: The field's name.
        what: What was given, with its value.
        expected: What would have been accepted.
        fix: The next thing to do.
        owner: The value that holds the field, if it is another than the one that tells.
    """

    field: str
    what: str
    expected: str
    fix: str
    owner: object = None


def find_mistakes(declared: object) -> Iterator[tuple[object, Mistake]]:
    """Every mistake in a declared value and the values in it, each with the value that holds the field.

    A value that has a `mistakes()` is asked for what is wrong with its fields, given that their types are
    right, and those of all values in it.
    """
    found = list(_type_mistakes(declared))
    inner = [each for child in _children(declared) for each in find_mistakes(child)]
    yield from ((declared, mistake) for mistake in found)
    yield from inner
    if not found and not inner and hasattr(declared, "mistakes"):
        yield from ((mistake.owner or declared, mistake) for mistake in declared.mistakes())


def fits(value: object, hint: Any) -> bool:
    """Whether a value is of a type; a list will do where a sequence is asked for, an int where a float is."""
    if type(value) is hint:  # of most fields
        return True
    origin, inner = _parts(hint)
    if origin in _UNIONS:
        return type(value) in inner or any(fits(value, each) for each in inner)
    if origin is Literal:
        return any(value == each and type(value) is type(each) for each in inner)
    if origin is Callable:
        return callable(value)
    return hint is Any or (_is_a(value, origin or hint) and _contents_fit(value, inner))


def type_name(hint: Any) -> str:
    """A type as a declaration would say it."""
    origin, inner = _parts(hint)
    if origin in _UNIONS:
        return " or ".join(dict.fromkeys(type_name(each) for each in inner))
    if origin is Literal:
        return " or ".join(repr(each) for each in inner)
    if origin is Callable:
        return "a function"
    if inner and issubclass(origin, Mapping):
        return f"a mapping of {type_name(inner[0])} to {type_name(inner[1])}"
    if inner:
        return f"a list of {type_name(inner[0])}"
    return "None" if hint is _NONE else str(getattr(hint, "__name__", hint))


@functools.cache
def field_types(declared: Any) -> Mapping[str, Any]:
    """The type of each field of a declared class, by name."""
    hints = get_type_hints(declared)
    return {each.name: hints[each.name] for each in fields(declared)}


@functools.cache
def _parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(hint), get_args(hint)


@functools.cache
def _holders(declared: Any) -> tuple[str, ...]:
    """The fields of a declared class that can hold declared values."""
    return tuple(name for name, hint in field_types(declared).items() if _can_hold(hint))


def _can_hold(hint: Any) -> bool:
    return is_dataclass(hint) or any(_can_hold(each) for each in get_args(hint) if each is not ...)


def _type_mistakes(declared: object) -> Iterator[Mistake]:
    owner: Any = type(declared)
    for name, hint in field_types(owner).items():
        value = getattr(declared, name)
        if not fits(value, hint):
            yield Mistake(
                field=name,
                what=f"{owner.__name__}.{name} is {_shown(value)}",
                expected=type_name(hint),
                fix="write a value of that type",
            )


def _children(declared: object) -> Iterator[object]:
    owner: Any = type(declared)
    for name in _holders(owner):
        value = getattr(declared, name)
        if isinstance(value, Mapping):
            value = tuple(value.values())
        many = isinstance(value, list | tuple)
        yield from (each for each in (value if many else (value,)) if hasattr(each, "__dataclass_fields__"))


def _is_a(value: object, kind: Any) -> bool:
    if type(value) is kind:
        return True
    if isinstance(value, bool):
        return kind is bool or kind is object
    if kind is float:
        return isinstance(value, int | float)
    if isinstance(value, str) and kind is not str:
        return False  # a text is a sequence too, but never the one that is meant
    return isinstance(value, kind)


def _contents_fit(value: object, inner: tuple[Any, ...]) -> bool:
    if not inner:
        return True
    if isinstance(value, Mapping):
        return all(fits(key, inner[0]) and fits(each, inner[1]) for key, each in value.items())
    if isinstance(value, Sequence):
        return all(fits(each, inner[0]) for each in value)
    return True


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004 (one line of a terminal)
