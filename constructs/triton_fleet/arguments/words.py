"""Types and values in the words of an error."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from aws_cdk import Duration, IResolvable

from triton_models.base.suggest import did_you_mean

LARGEST = 2**53
"""The CDK runs in JavaScript, which knows integers up to here."""

_LONGEST_SHOWN = 60
_MOST_LISTED = 8
_WANTED = {bool: "True or False", int: "an integer", float: "a number", str: "a string", NoneType: "None"}
_PLURALS = {bool: "booleans", int: "integers", float: "numbers", str: "strings"}
_GIVEN = {
    bool: "a boolean",
    int: "an integer",
    float: "a float",
    str: "a string",
    bytes: "bytes",
    list: "a list",
}


def is_known_number(number: float) -> bool:
    """Whether JavaScript knows the number as well as Python does."""
    return math.isfinite(number) if isinstance(number, float) else abs(number) <= LARGEST


def is_unicode(text: str) -> bool:
    """Whether it can be written down: half of a pair of surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(value: object) -> str:
    """A value as its user wrote it, shortened; of an object without such a form its class."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    text = value.__name__ if isinstance(value, type) else ascii(value)
    if text.startswith("<"):
        return _with_article(type(value).__name__)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def with_kind(value: object) -> str:
    """A value with its kind, unless the value itself shows it."""
    kind = _kind(value)
    return f"{shown(value)}, {kind}" if kind else shown(value)


def _kind(value: object) -> str:
    if isinstance(value, type):
        return "a class"
    if isinstance(value, str) and not is_unicode(value):
        return "a string with half a character"
    if isinstance(value, (int, float)) and not is_known_number(value):
        return "no finite number" if isinstance(value, float) else "a number beyond 2**53"
    return _GIVEN.get(type(value), "")


def described(wanted: Any) -> str:
    """A type."""
    origin, arguments = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        return " or ".join(described(each) for each in arguments if each is not NoneType)
    if origin is Literal:
        return f"one of {', '.join(map(repr, arguments))}"
    if origin is Mapping:
        return f"a dict from {_plural(arguments[0])} to {_plural(arguments[1])}"
    if origin is not None:
        return f"a {'tuple' if origin is tuple else 'list'} of {_plural(arguments[0])}"
    return _WANTED.get(wanted) or _class(wanted)


def advice(given: object, wanted: Any) -> str:
    """What to write instead."""
    choices = get_args(wanted) if get_origin(wanted) in (Union, UnionType) else (wanted,)
    for each in choices:
        for hint in _HINTS:
            if text := hint(given, each):
                return text
    optional = ", or leave it out" if NoneType in choices else ""
    return f"give {described(wanted)}{optional}"


def _class(wanted: Any) -> str:
    if wanted is Duration:
        return "a Duration such as Duration.minutes(5)"
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        names = [f"{wanted.__name__}.{member.name}" for member in wanted]
        if len(names) <= _MOST_LISTED:
            return f"one of {', '.join(names)}"
        return f"a member of {wanted.__name__} such as {names[0]}"
    # Classes of the CDK with their module, as they are imported: aws_kms.IKey.
    module = wanted.__module__.rpartition(".")[2]
    of_service = module.startswith("aws_") and module != "aws_cdk"
    return _with_article(f"{module}.{wanted.__name__}" if of_service else wanted.__name__)


def _plural(wanted: Any) -> str:
    return _PLURALS.get(wanted) or described(wanted).removeprefix("a ").removeprefix("an ")


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


def _of_lists(given: object, wanted: Any) -> str:
    if get_origin(wanted) not in (Sequence, Collection, tuple):
        return ""
    if get_origin(wanted) is tuple and isinstance(given, list):
        return "write it with round brackets, or as tuple(...)"
    element = get_args(wanted)[0]
    looked_at = isinstance(element, type) and not getattr(element, "_is_protocol", False)
    if looked_at and isinstance(given, element):
        return f"write ({shown(given)},)" if get_origin(wanted) is tuple else f"write [{shown(given)}]"
    return ""


def _of_texts(given: object, wanted: Any) -> str:
    if wanted is str and isinstance(given, bytes):
        return "give text, such as bytes.decode() makes"
    if isinstance(given, str) and isinstance(wanted, type) and issubclass(wanted, PurePath):
        return f"write Path({given!r})"
    return ""


def _of_numbers(given: object, wanted: Any) -> str:
    if wanted in (int, float) and isinstance(given, str):
        return "write the number without quotes"
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        return ""
    if wanted is Duration and is_known_number(given):
        return f"write Duration.seconds({given}), or another unit of Duration"
    if wanted in (int, float) and not is_known_number(given):
        return "give a finite number, up to 2**53"
    return ""


def _of_tokens(given: object, wanted: Any) -> str:
    interfaces = getattr(type(given), "__jsii_ifaces__", ())
    if wanted in (int, str, float) and IResolvable in interfaces:
        return f"give Token.as_{'string' if wanted is str else 'number'}(...) of it"
    return ""


def _of_enumerations(given: object, wanted: Any) -> str:
    if not (isinstance(wanted, type) and issubclass(wanted, Enum) and isinstance(given, str)):
        return ""
    names = {member.value: f"{wanted.__name__}.{member.name}" for member in wanted}
    if given in names:
        return f"write {names[given]}"
    return did_you_mean(given, list(names.values()), otherwise=f"give {described(wanted)}")


_HINTS: Sequence[Callable[[object, Any], str]] = (
    _of_lists,
    _of_texts,
    _of_numbers,
    _of_tokens,
    _of_enumerations,
)
