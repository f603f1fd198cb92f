"""Comparison of values with annotated types, and descriptions of both for error messages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

from triton_models.base.suggest import did_you_mean

IsA: TypeAlias = Callable[[object, Any], bool]
"""Returns True if a value has a type, which has no type arguments."""

Mismatch: TypeAlias = tuple[str, object, Any]
"""A place, the value found there, and the annotated type."""

Hint: TypeAlias = Callable[[object, Any], str]
"""Returns the fix for a value that does not have the annotated type; "" if it does not know one."""

UNIONS = (Union, UnionType)
COLLECTIONS = (Sequence, Collection, tuple)

_LONGEST_SHOWN = 60
_MOST_LISTED = 8
_WANTED = {bool: "True or False", int: "an integer", float: "a number", str: "a string", NoneType: "None"}
_PLURALS = {bool: "booleans", int: "integers", float: "numbers", str: "strings"}
_KINDS = (bool, int, float, str, bytes, list)


def is_a(value: object, wanted: Any) -> bool:
    """Return True if a value has a type.

    An int is also a float. A bool is not a number, and a str is not a sequence.
    """
    if type(value) is wanted:
        return True
    if isinstance(value, bool):
        return wanted is object
    if wanted is float:
        return isinstance(value, int | float)
    if isinstance(value, str) and wanted is not str:
        return False
    return isinstance(value, wanted)


def fits(value: object, wanted: Any, *, of_type: IsA = is_a) -> bool:
    """Return True if a value has an annotated type."""
    return matcher(wanted, of_type)(value)


@functools.cache
def matcher(wanted: Any, of_type: IsA = is_a) -> Callable[[Any], bool]:
    """Return the test for an annotated type, cached because a synthesis reads thousands of declarations."""
    origin, inner = get_origin(wanted), get_args(wanted)
    if wanted is Any:
        return lambda value: True
    if origin in UNIONS:
        choices = [matcher(each, of_type) for each in inner]
        return lambda value: any(choice(value) for choice in choices)
    if origin is Literal:
        return lambda value: any(value == each and type(value) is type(each) for each in inner)
    if origin is Callable:
        return callable
    if origin in (*COLLECTIONS, Mapping):
        return _container_matcher(origin, [matcher(each, of_type) for each in inner if each is not ...])
    return lambda value: of_type(value, wanted)


def _container_matcher(origin: Any, parts: Sequence[Callable[[Any], bool]]) -> Callable[[Any], bool]:
    """Return the test for a mapping or a collection, given the tests for its parts."""
    first, last = parts[0], parts[-1]
    if origin is Mapping:
        return lambda value: (
            isinstance(value, Mapping) and all(first(k) and last(v) for k, v in value.items())
        )
    return lambda value: _is_collection(value, origin) and all(map(first, value))


def mismatches(place: str, value: object, wanted: Any, *, of_type: IsA = is_a) -> Iterator[Mismatch]:
    """Yield each place whose value does not have the annotated type.

    Args:
        place: The name of the value in messages; the names of its elements begin with it.
        value: The given value.
        wanted: The annotation.
        of_type: The test for a type without type arguments.
    """
    origin, inner = get_origin(wanted), get_args(wanted)
    if fits(value, wanted, of_type=of_type):
        return
    if origin in UNIONS and not isinstance(value, str):
        # If only an element of a list is wrong, report the element rather than the list.
        within = [each for each in inner if get_origin(each) in COLLECTIONS]
        wanted = next((each for each in within if _is_collection(value, get_origin(each))), wanted)
        origin, inner = get_origin(wanted), get_args(wanted)
    if origin in COLLECTIONS and _is_collection(value, origin):
        assert isinstance(value, Collection)  # noqa: S101 -- every origin in COLLECTIONS is one
        for index, each in enumerate(value):
            yield from mismatches(f"{place}[{index}]", each, inner[0], of_type=of_type)
    elif origin is Mapping and isinstance(value, Mapping):
        for key, each in value.items():
            yield from mismatches(f"a key of {place}", key, inner[0], of_type=of_type)
            yield from mismatches(f"{place}[{shown(key)}]", each, inner[1], of_type=of_type)
    else:
        yield place, value, wanted


def _is_collection(value: object, origin: Any) -> bool:
    return isinstance(value, origin) and not isinstance(value, (str, bytes, Mapping))


def shown(value: object) -> str:
    """Return a value as the user wrote it, shortened; for an object without a literal form, its class."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    text = value.__name__ if isinstance(value, type) else ascii(value)
    if text.startswith("<"):
        return with_article(type(value).__name__)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def with_kind(value: object) -> str:
    """Return a value with its type, such as "'5' (str)", unless the type is obvious from the value."""
    if isinstance(value, type):
        return f"{shown(value)} (class)"
    return f"{shown(value)} ({type(value).__name__})" if type(value) in _KINDS else shown(value)


def described(wanted: Any, *, class_name: Callable[[Any], str] | None = None) -> str:
    """Describe a type in words.

    Args:
        wanted: The annotation.
        class_name: Returns the words for a class; by default, its name with an article.
    """
    name = class_name or _class_name
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin in UNIONS:
        return " or ".join(described(each, class_name=name) for each in inner if each is not NoneType)
    if origin is Literal:
        return f"one of {', '.join(map(repr, inner))}"
    if origin is Callable:
        return "a function"
    if origin is Mapping:
        return f"a dict from {_plural(inner[0], name)} to {_plural(inner[1], name)}"
    if origin is not None:
        return f"a {'tuple' if origin is tuple else 'list'} of {_plural(inner[0], name)}"
    return _WANTED.get(wanted) or name(wanted)


def advice(
    given: object, wanted: Any, *, hints: Sequence[Hint] = (), class_name: Callable[[Any], str] | None = None
) -> str:
    """Return the fix for a value of the wrong type, from these hints or else from the general ones."""
    choices = get_args(wanted) if get_origin(wanted) in UNIONS else (wanted,)
    for each in choices:
        for hint in (*hints, _of_lists, _of_strings, _of_numbers, _of_enumerations):
            if text := hint(given, each):
                return text
    optional = ", or omit it" if NoneType in choices else ""
    return f"give {described(wanted, class_name=class_name)}{optional}"


def one_of_enumeration(wanted: type[Enum]) -> str:
    """Describe an enumeration by its members, or by the first one if there are many."""
    names = [f"{wanted.__name__}.{member.name}" for member in wanted]
    if len(names) <= _MOST_LISTED:
        return f"one of {', '.join(names)}"
    return f"a member of {wanted.__name__} such as {names[0]}"


def with_article(name: str) -> str:
    """Return a name with "a" or "an"."""
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


def _class_name(wanted: Any) -> str:
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return one_of_enumeration(wanted)
    return with_article(str(getattr(wanted, "__name__", wanted)))


def _plural(wanted: Any, class_name: Callable[[Any], str]) -> str:
    if get_origin(wanted) in UNIONS:
        return " or ".join(_plural(each, class_name) for each in get_args(wanted))
    if wanted in _PLURALS:
        return _PLURALS[wanted]
    return described(wanted, class_name=class_name).removeprefix("a ").removeprefix("an ")


def _of_lists(given: object, wanted: Any) -> str:
    if get_origin(wanted) not in COLLECTIONS:
        return ""
    if get_origin(wanted) is tuple and isinstance(given, list):
        return "write it with round brackets, or as tuple(...)"
    element = get_args(wanted)[0]
    elements = get_args(element) if get_origin(element) in UNIONS else (element,)
    classes = (
        each for each in elements if isinstance(each, type) and not getattr(each, "_is_protocol", False)
    )
    if isinstance(given, tuple(classes)):
        return f"write ({shown(given)},)" if get_origin(wanted) is tuple else f"write [{shown(given)}]"
    return ""


def _of_strings(given: object, wanted: Any) -> str:
    if wanted is str and isinstance(given, bytes):
        return "give a string, such as bytes.decode() makes"
    if isinstance(given, str) and isinstance(wanted, type) and issubclass(wanted, PurePath):
        return f"write Path({given!r})"
    return ""


def _of_numbers(given: object, wanted: Any) -> str:
    return "write the number without quotes" if wanted in (int, float) and isinstance(given, str) else ""


def _of_enumerations(given: object, wanted: Any) -> str:
    if not (isinstance(wanted, type) and issubclass(wanted, Enum) and isinstance(given, str)):
        return ""
    names = {member.value: f"{wanted.__name__}.{member.name}" for member in wanted}
    if given in names:
        return f"write {names[given]}"
    return did_you_mean(given, list(names.values()), otherwise=f"give {one_of_enumeration(wanted)}")
