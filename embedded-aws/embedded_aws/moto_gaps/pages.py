"""Pages of long answers, for operations of moto that return everything at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class BadTokenError(ValueError):
    """The token of a page is not one that was returned."""


def page(items: Sequence[Item], *, token: str | None, size: int) -> tuple[Sequence[Item], str | None]:
    """Return the items of a page, and the token of the next one; None after the last page.

    Args:
        items: All items.
        token: The token of the page; None for the first one.
        size: The number of items on a page.

    Raises:
        BadTokenError: The token is not one of a page.
    """
    if token and not token.isdecimal():
        raise BadTokenError(token)
    start = int(token or 0)
    end = start + size
    return items[start:end], str(end) if end < len(items) else None
