"""Whether a value is of the type that an annotation says, the way a user of the CDK means it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from aws_cdk import Token

from triton_fleet.arguments.words import is_known_number, is_unicode, shown

Mismatch = tuple[str, object, Any]
"""A place, what is there, and what is wanted."""

# The CDK marks tokens in the highest bits of a double.
_TOKENS = (-1e300, -1e280)

COLLECTIONS = (Sequence, Collection, tuple)


def fits(value: object, wanted: Any) -> bool:
    """Whether a value is of an annotated type."""
    return next(mismatches("", value, wanted), None) is None


def mismatches(place: str, value: object, wanted: Any) -> Iterator[Mismatch]:
    """Each place where another type is wanted.

    Args:
        place: How to name the value; its elements are named after it.
        value: What was given.
        wanted: The annotation.
    """
    origin = get_origin(wanted)
    if origin in (Union, UnionType):
        yield from _of_union(place, value, wanted)
    elif origin is Literal:
        if not any(value == each and type(value) is type(each) for each in get_args(wanted)):
            yield place, value, wanted
    elif origin in COLLECTIONS:
        yield from _of_collection(place, value, wanted, origin)
    elif origin is Mapping:
        yield from _of_mapping(place, value, wanted)
    elif not _is_a(value, wanted):
        yield place, value, wanted


def _of_union(place: str, value: object, wanted: Any) -> Iterator[Mismatch]:
    choices = get_args(wanted)
    if any(fits(value, each) for each in choices):
        return
    origins = {get_origin(each): each for each in choices if get_origin(each) in COLLECTIONS}
    within = [each for origin, each in origins.items() if isinstance(value, origin)]
    if within and not isinstance(value, str):  # a list as it should be, with an element that should not
        yield from mismatches(place, value, within[0])
    else:
        yield place, value, wanted


def _of_collection(place: str, value: object, wanted: Any, origin: type) -> Iterator[Mismatch]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, origin):
        yield place, value, wanted
        return
    assert isinstance(value, Collection)  # noqa: S101 -- as all of the origins are
    element = get_args(wanted)[0]
    for index, each in enumerate(value):
        yield from mismatches(f"{place}[{index}]", each, element)


def _of_mapping(place: str, value: object, wanted: Any) -> Iterator[Mismatch]:
    if not isinstance(value, Mapping):
        yield place, value, wanted
        return
    key_type, value_type = get_args(wanted)
    for key, each in value.items():
        yield from mismatches(f"a key of {place}", key, key_type)
        yield from mismatches(f"{place}[{shown(key)}]", each, value_type)


def _is_a(value: object, wanted: Any) -> bool:
    """Whether a value is of a type without type arguments."""
    if wanted is float:
        return is_number(value)
    if wanted is int:
        return is_number(value) and (isinstance(value, int) or is_number_token(value))
    if wanted is str:
        return isinstance(value, str) and is_unicode(value)
    if not isinstance(wanted, type):
        return True  # an annotation that says nothing about the type
    if getattr(wanted, "_is_protocol", False):
        return implements(value, wanted)
    return isinstance(value, wanted) or (hasattr(wanted, "__jsii_type__") and _is_foreign(value))


def is_number(value: object) -> bool:
    """Whether it is a number that JavaScript knows as well, or a token. True and False are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return is_known_number(value) or is_number_token(value)


def is_number_token(value: object) -> bool:
    """Whether it is the number that a token is written as: far below any that is meant as a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not _TOKENS[0] < value < _TOKENS[1]:
        return False
    return Token.is_unresolved(value)


def _is_foreign(value: object) -> bool:
    """Whether it is an object of the CDK of which only interfaces are known here."""
    return "_delegates" in vars(value) if hasattr(value, "__dict__") else False


def implements(value: object, interface: Any) -> bool:
    """Whether an object implements an interface of the CDK; those are never implemented by looks alone."""
    if isinstance(value, type):
        return False
    wanted = interface.__jsii_type__
    known = vars(value)["_delegates"] if _is_foreign(value) else [value]
    classes: list[Any] = [type(each) for each in known]
    return any(wanted in _cdk_names(each) for each in classes)


@cache
def _cdk_names(cls: Any) -> frozenset[str]:
    """The CDK's names of everything that a class is and implements."""
    declared = (cls, *getattr(cls, "__jsii_ifaces__", ()))
    names = (vars(base).get("__jsii_type__") for each in declared for base in each.__mro__)
    return frozenset(name for name in names if name).union(*(_cdk_names(base) for base in cls.__mro__[1:]))
