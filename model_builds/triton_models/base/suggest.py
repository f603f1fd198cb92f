"""Names for messages: what a mistyped one may have meant, and the first of many."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

CLOSE = 0.6
CLOSER = 0.8
"""For names of few characters with digits in them, of which most resemble each other."""

_MOST = 3
_LEAST_PREFIX = 3


def close_to(given: str, known: Iterable[str], *, cutoff: float = CLOSE) -> list[str]:
    """Up to three known names: those close to the one given, or else those that begin with it."""
    wanted = str(given).casefold()
    folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(wanted, folded, n=_MOST, cutoff=cutoff)
    longer = [name for name in folded if name.startswith(wanted) and len(wanted) >= _LEAST_PREFIX]
    return [folded[name] for name in close or longer[:_MOST]]


def did_you_mean(given: str, known: Iterable[str], *, otherwise: str, cutoff: float = CLOSE) -> str:
    """A question naming up to three known names close to the one given, or `otherwise` if none is close."""
    close = close_to(given, known, cutoff=cutoff)
    return f"did you mean {' or '.join(close)}?" if close else otherwise


def some_of(names: Sequence[str]) -> str:
    """The first three names, and how many more there are."""
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f"{', '.join(names[:_MOST])}{more}"
