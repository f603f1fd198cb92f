"""What is wrong with declared values: the types first, then what each class says about its own fields."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from triton_models.base.checks import FROM_ARGUMENTS, Check

BAD_DECLARATION = Check(id="bad-declaration", source=FROM_ARGUMENTS)

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


def find_mistakes(*declared: object) -> list[tuple[object, Mistake]]:
    """Every mistake in declared values and the values in them, each with the value that holds the field.

    A value that has a `mistakes()` is asked for what is wrong with its fields. What stands in several values
    is looked at once.
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
    """These values and all that are declared in them, each once, what is within before what holds it."""
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
    """What a value says about its fields, apart from those of a wrong type."""
    try:
        for mistake in declared.mistakes():
            if mistake.field not in mistyped:
                yield mistake.owner or declared, mistake
    except Exception:
        if not something_wrong:
            raise
        # It came to what is wrong already, and is reported.


def fits(value: object, hint: Any) -> bool:
    """Whether a value is of a type; a list will do where a sequence is asked for, an int where a float is."""
    return _check_of(hint)(value)


@functools.cache
def _check_of(hint: Any) -> Callable[[Any], bool]:
    """The check for a type, made once: thousands of declarations are read before every synthesis."""
    origin, inner = _parts(hint)
    if hint is Any:
        return lambda value: True
    if origin in _UNIONS:
        checks = [_check_of(each) for each in inner]
        return lambda value: type(value) in inner or any(check(value) for check in checks)
    if origin is Literal:
        return lambda value: any(value == each and type(value) is type(each) for each in inner)
    if origin is Callable:
        return callable
    kind, contents = origin or hint, _contents_check(inner)
    if contents is None:
        return lambda value: type(value) is kind or _is_a(value, kind)
    return lambda value: _is_a(value, kind) and contents(value)


def _contents_check(inner: tuple[Any, ...]) -> Callable[[Any], bool] | None:
    """The check for what a collection holds; None if anything will do."""
    if not inner:
        return None
    first, last = _check_of(inner[0]), _check_of(inner[-1])

    def check(value: object) -> bool:
        if isinstance(value, list | tuple):  # first, for it is quick to tell, and nearly always so
            return all(map(first, value))
        if isinstance(value, Mapping):
            return all(first(key) and last(each) for key, each in value.items())
        return not isinstance(value, Sequence) or all(map(first, value))

    return check


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


@functools.cache
def _field_checks(declared: Any) -> tuple[tuple[str, Callable[[Any], bool], Any], ...]:
    """The check and the type of each field of a declared class."""
    return tuple((name, _check_of(hint), hint) for name, hint in field_types(declared).items())


def _type_mistakes(declared: object) -> list[Mistake]:
    owner: Any = type(declared)
    return [
        Mistake(
            field=name,
            what=f"{owner.__name__}.{name} is {_shown(getattr(declared, name))}",
            expected=type_name(hint),
            fix="write a value of that type",
        )
        for name, check, hint in _field_checks(owner)
        if not check(getattr(declared, name))
    ]


def _children(declared: object) -> list[object]:
    """The declared values in a value's fields."""
    found: list[object] = []
    owner: Any = type(declared)
    for name in _holders(owner):
        value = getattr(declared, name)
        if not isinstance(value, list | tuple):
            value = tuple(value.values()) if isinstance(value, Mapping) else (value,)
        found += [each for each in value if hasattr(type(each), "__dataclass_fields__")]
    return found


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


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004 (one line of a terminal)
