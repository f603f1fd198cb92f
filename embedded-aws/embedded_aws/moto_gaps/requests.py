"""Requests of services: pages of long answers, and enums and patterns, which botocore does not check."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from moto.core.utils import get_service_model


def page(
    request: Mapping[str, Any],
    member: str,
    items: Sequence[Any],
    *,
    size: int,
    refusal: Exception,
    token: str = "NextToken",  # noqa: S107
    limit: str = "MaxResults",
) -> dict[str, Any]:
    """Return an answer with a page of items, and the token of the next page if there is one.

    `token` and `limit` are their names in the request. `refusal` is the error for a token that no answer had.
    """
    given = request.get(token)
    if given and not given.isdecimal():
        raise refusal
    start = int(given or 0)
    end = start + int(request.get(limit) or size)
    return {member: list(items[start:end])} | ({token: str(end)} if end < len(items) else {})


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
