"""Comparison of values with annotated types, and descriptions of both for error messages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

_UNIONS = (Union, UnionType)
_COLLECTIONS = (Sequence, Collection, tuple)
_LONGEST_SHOWN = 60
_WANTED = {bool: "True or False", int: "an integer", float: "a number", str: "a string", NoneType: "None"}
_PLURALS = {bool: "booleans", int: "integers", float: "numbers", str: "strings"}


def fits(value: object, wanted: Any) -> bool:
    """Return True if a value has an annotated type."""
    return matcher(wanted)(value)


@functools.cache
def matcher(wanted: Any) -> Callable[[Any], bool]:
    """Return the test for an annotated type, cached because a synthesis reads thousands of declarations."""
    origin, inner = get_origin(wanted), get_args(wanted)
    if wanted is Any or isinstance(wanted, TypeVar):
        return lambda value: True
    if origin in _UNIONS:
        choices = [matcher(each) for each in inner]
        return lambda value: any(choice(value) for choice in choices)
    if origin is Literal:
        return lambda value: any(value == each and type(value) is type(each) for each in inner)
    if origin is Mapping:
        key, item = map(matcher, inner)
        return lambda value: isinstance(value, Mapping) and all(key(k) and item(v) for k, v in value.items())
    if origin in _COLLECTIONS:
        element = matcher(inner[0])
        return lambda value: _is_collection(value, origin) and all(map(element, value))
    return callable if origin is Callable else lambda value: _is_a(value, origin or wanted)


def _is_a(value: object, wanted: Any) -> bool:
    """Return True if a value has a class: an int is also a float, and a bool is not a number."""
    if type(value) is wanted:
        return True
    if isinstance(value, bool):
        return wanted is object
    return isinstance(value, int | float if wanted is float else wanted)


def _is_collection(value: object, origin: Any) -> bool:
    return isinstance(value, origin) and not isinstance(value, (str, bytes, Mapping))


def with_kind(value: object) -> str:
    """Return a value with its type, such as "'5' (str)", unless the type is obvious from the value."""
    if isinstance(value, type):
        return f"{value.__name__} (class)"
    text = ascii(value)
    if text.startswith("<"):
        return with_article(type(value).__name__)
    shown = text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."
    return f"{shown} ({type(value).__name__})" if type(value).__module__ == "builtins" else shown


def described(wanted: Any) -> str:
    """Describe a type in words."""
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin in _UNIONS:
        return " or ".join(described(each) for each in inner if each is not NoneType)
    if origin is Literal:
        return f"one of {', '.join(map(repr, inner))}"
    if origin is Callable:
        return "a function"
    if origin is Mapping:
        return f"a dict from {_plural(inner[0])} to {_plural(inner[1])}"
    if origin is not None:
        return f"a {'tuple' if origin is tuple else 'list'} of {_plural(inner[0])}"
    return _WANTED.get(wanted) or with_article(str(getattr(wanted, "__name__", wanted)))


def advice(given: object, wanted: Any) -> str:
    """Return the fix for a value of the wrong type."""
    choices = get_args(wanted) if get_origin(wanted) in _UNIONS else (wanted,)
    if isinstance(given, str) and {int, float} & set(choices):
        return "write the number without quotes"
    for each in choices:
        if get_origin(each) in _COLLECTIONS and fits(given, get_args(each)[0]):
            shown = with_kind(given).partition(" (")[0]
            return f"write ({shown},)" if get_origin(each) is tuple else f"write [{shown}]"
    optional = ", or omit it" if NoneType in choices else ""
    return f"give {described(wanted)}{optional}"


def with_article(name: str) -> str:
    """Return a name with "a" or "an"."""
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


def _plural(wanted: Any) -> str:
    if get_origin(wanted) in _UNIONS:
        return " or ".join(map(_plural, get_args(wanted)))
    return _PLURALS.get(wanted) or described(wanted).removeprefix("a ").removeprefix("an ")
