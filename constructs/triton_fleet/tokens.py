"""Values that exist only once the stack is deployed."""

from __future__ import annotations

from typing import TypeVar

from aws_cdk import Token

Value = TypeVar("Value")


def known(value: Value) -> Value | None:
    """The value, or None if it is a token: nothing can be checked about a value that is not there yet."""
    return None if Token.is_unresolved(value) else value
