"""Values held against annotated types, the way a user of the CDK means them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from aws_cdk import Token

from triton_fleet.arguments.words import is_known_number, is_unicode
from triton_models.base import matching

# The CDK marks tokens in the highest bits of a double.
_TOKENS = (-1e300, -1e280)


def fits(value: object, wanted: Any) -> bool:
    """Return whether a value has an annotated type."""
    return matching.fits(value, wanted, of_type=is_a)


def mismatches(place: str, value: object, wanted: Any) -> Iterator[matching.Mismatch]:
    """Each place where another type is wanted; see `triton_models.base.matching`."""
    return matching.mismatches(place, value, wanted, of_type=is_a)


def is_a(value: object, wanted: Any) -> bool:
    """Return whether a value has a type without type arguments."""
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
    """Return whether a value is a number in JavaScript too, or a token. True and False are not numbers."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return is_known_number(value) or is_number_token(value)


def is_number_token(value: object) -> bool:
    """Return whether a value is the number of a token, which is far below any other number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not _TOKENS[0] < value < _TOKENS[1]:
        return False
    return Token.is_unresolved(value)


def _is_foreign(value: object) -> bool:
    """Return whether a value is an object of the CDK of which only interfaces are known here."""
    return "_delegates" in vars(value) if hasattr(value, "__dict__") else False


def implements(value: object, interface: Any) -> bool:
    """Return whether an object implements an interface of the CDK. Equal members are not enough."""
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
