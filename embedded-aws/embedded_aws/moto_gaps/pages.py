"""Pages of long answers, for operations of moto that return everything at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


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

    Args:
        request: The request.
        member: The list's name in the answer.
        items: All items.
        size: The number of items on a page.
        refusal: The error for a token that no answer had.
        token: The token's name in the request and the answer.
        limit: The name of another size in the request.
    """
    given = request.get(token)
    if given and not given.isdecimal():
        raise refusal
    start = int(given or 0)
    end = start + int(request.get(limit) or size)
    return {member: list(items[start:end])} | ({token: str(end)} if end < len(items) else {})
