"""Names for messages: suggestions for a mistyped name, and abbreviated lists."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

CLOSE = 0.6
CLOSER = 0.8
"""For short names with digits, most of which resemble each other."""

_MOST = 3
_LEAST_PREFIX = 3


def close_to(given: str, known: Iterable[str], *, cutoff: float = CLOSE) -> list[str]:
    """Return up to three known names: those close to the given one, or else those that begin with it."""
    wanted = str(given).casefold()
    folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(wanted, folded, n=_MOST, cutoff=cutoff)
    longer = [name for name in folded if name.startswith(wanted) and len(wanted) >= _LEAST_PREFIX]
    return [folded[name] for name in close or longer[:_MOST]]


def did_you_mean(given: str, known: Iterable[str], *, otherwise: str, cutoff: float = CLOSE) -> str:
    """Return a question with up to three known names close to the given one; `otherwise` if none is close."""
    close = close_to(given, known, cutoff=cutoff)
    return f"did you mean {' or '.join(close)}?" if close else otherwise


def some_of(names: Sequence[str]) -> str:
    """Return the first three names, and the number of the others."""
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f"{', '.join(names[:_MOST])}{more}"
