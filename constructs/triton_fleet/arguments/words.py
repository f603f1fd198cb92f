"""Types of the CDK, and values that it cannot take, in the words of an error."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any

from aws_cdk import Duration, IResolvable

from triton_models.base import matching

LARGEST = 2**53
"""The CDK runs in JavaScript, which knows integers up to here."""


def is_known_number(number: float) -> bool:
    """Return whether JavaScript can hold a number exactly."""
    return math.isfinite(number) if isinstance(number, float) else abs(number) <= LARGEST


def is_unicode(text: str) -> bool:
    """Return whether a string can be encoded: a lone surrogate cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def with_kind(value: object) -> str:
    """A value with its type, or with the reason why the CDK cannot take it."""
    if isinstance(value, str) and not is_unicode(value):
        return f"{matching.shown(value)} (half a character)"
    if isinstance(value, (int, float)) and not is_known_number(value):
        reason = "not finite" if isinstance(value, float) else "beyond 2**53"
        return f"{matching.shown(value)} ({reason})"
    return matching.with_kind(value)


def described(wanted: Any) -> str:
    """A type."""
    return matching.described(wanted, class_name=_class_name)


def advice(given: object, wanted: Any) -> str:
    """The fix for a value of another type."""
    return matching.advice(given, wanted, hints=(_of_numbers, _of_tokens), class_name=_class_name)


def _class_name(wanted: Any) -> str:
    if wanted is Duration:
        return "a Duration such as Duration.minutes(5)"
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return matching.one_of_enumeration(wanted)
    # Classes of the CDK with their module, as they are imported: aws_kms.IKey.
    module = wanted.__module__.rpartition(".")[2]
    of_service = module.startswith("aws_") and module != "aws_cdk"
    return matching.with_article(f"{module}.{wanted.__name__}" if of_service else wanted.__name__)


def _of_numbers(given: object, wanted: Any) -> str:
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
