"""Values that exist only once the stack is deployed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

from aws_cdk import Token

Value = TypeVar("Value")


def deferred(value: object) -> bool:
    """Return whether a value is known only when the stack is deployed.

    Infinity and NaN are not, and are not looked up: the bridge to the CDK has no such numbers, and ends when
    it is given one.
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return False
    return Token.is_unresolved(value)


def known(value: Value) -> Value | None:
    """The value, or None if it is a token: nothing can be checked about a value that is not there yet."""
    return None if deferred(value) else value


def is_list_token(given: Sequence[str]) -> bool:
    """Return whether a list is a token, known only at deployment."""
    return bool(given) and Token.is_unresolved(list(given)) and not any(map(Token.is_unresolved, given))
