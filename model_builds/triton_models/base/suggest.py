"""Names for messages: suggestions for a mistyped name, and abbreviated lists."""

from __future__ import annotations

import difflib
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence

CLOSE = 0.6
CLOSER = 0.8
"""For short names with digits, most of which resemble each other."""

_MOST = 3
_LEAST_PREFIX = 3

# difflib takes about 20 microseconds per known name, and a name may come from a request. Among more names,
# only those that differ by one character are found, at a cost that depends on the given name alone.
_FEW = 200
_LONGEST_TYPO = 64
_CHARACTERS = string.ascii_lowercase + string.digits + "-_."


def close_to(given: str, known: Iterable[str], *, cutoff: float = CLOSE) -> list[str]:
    """Return up to three known names: those close to the given one, or else those that begin with it."""
    wanted = str(given).casefold()
    names = known if isinstance(known, Mapping) else dict.fromkeys(known)
    if len(names) > _FEW:
        return [name for name in dict.fromkeys(_one_character_away(wanted)) if name in names][:_MOST]
    folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(wanted, folded, n=_MOST, cutoff=cutoff)
    longer = [name for name in folded if name.startswith(wanted) and len(wanted) >= _LEAST_PREFIX]
    return [folded[name] for name in close or longer[:_MOST]]


def _one_character_away(name: str) -> Iterator[str]:
    """Yield the name, and what it would be with two characters swapped, or one removed, replaced or added."""
    yield name
    if len(name) > _LONGEST_TYPO:
        return
    halves = [(name[:at], name[at:]) for at in range(len(name) + 1)]
    for head, tail in halves:
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]
        if tail:
            yield head + tail[1:]
            yield from (head + each + tail[1:] for each in _CHARACTERS)
        yield from (head + each + tail for each in _CHARACTERS)


def did_you_mean(given: str, known: Iterable[str], *, otherwise: str, cutoff: float = CLOSE) -> str:
    """Return a question with up to three known names close to the given one; `otherwise` if none is close."""
    close = close_to(given, known, cutoff=cutoff)
    return f"did you mean {' or '.join(close)}?" if close else otherwise


def some_of(names: Sequence[str]) -> str:
    """Return the first three names, and the number of the others."""
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f"{', '.join(names[:_MOST])}{more}"
