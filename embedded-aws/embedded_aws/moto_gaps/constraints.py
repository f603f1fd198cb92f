"""Enums and patterns in the model of an API. botocore does not check them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from moto.core.utils import get_service_model


def violations(service: str, operation: str, request: dict[str, Any]) -> Iterator[str]:
    """Yield AWS's message for each value of a request that violates an enum or a pattern."""
    shape: Any = get_service_model(service).operation_model(operation).input_shape
    yield from _of(shape, request, "")


def _of(shape: Any, value: Any, path: str) -> Iterator[str]:
    if shape.type_name == "structure":
        for name, member in shape.members.items():
            if name in value:
                yield from _of(member, value[name], f"{path}.{name[0].lower()}{name[1:]}".lstrip("."))
    elif shape.type_name == "list":
        for number, item in enumerate(value, start=1):
            yield from _of(shape.member, item, f"{path}.{number}.member")
    elif shape.type_name == "string":
        allowed, pattern = shape.metadata.get("enum"), shape.metadata.get("pattern")
        violated = f"Value '{value}' at '{path}' failed to satisfy constraint: Member must satisfy"
        if allowed and value not in allowed:
            yield f"{violated} enum value set: [{', '.join(sorted(allowed))}]"
        elif pattern and not _matches(pattern, value):
            yield f"{violated} regular expression pattern: {pattern}"


def _matches(pattern: str, value: str) -> bool:
    try:
        return re.fullmatch(pattern, value) is not None
    except re.error:  # Java's syntax
        return True
