"""Tags are ones that AWS takes."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping

from triton_models.base.errors import Problem

RULE = "tags"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Tag.html"

MOST = 50
_LONGEST_KEY = 128
_LONGEST_VALUE = 256
# Of Unicode: letters, numbers and separators, to which a tab or the end of a line do not belong.
_KINDS = "LNZ"
_SIGNS = "_.:/=+-@"


def tag_set(tags: Mapping[str, str | None], *, where: str) -> Iterator[Problem]:
    """The problems with tags; a value that is known only at deployment is None."""
    if len(tags) > MOST:
        yield _problem(f"{len(tags)} tags", where)
    for key, value in tags.items():
        reserved = not key or key.lower().startswith("aws:")
        if reserved or not (_fits(key, _LONGEST_KEY) and _fits(value or "", _LONGEST_VALUE)):
            yield _problem(f"a tag is {key[:40]!a}: {(value or '')[:40]!a}", where)


def _fits(text: str, longest: int) -> bool:
    return len(text) <= longest and all(
        each in _SIGNS or unicodedata.category(each)[0] in _KINDS for each in text
    )


def _problem(what: str, where: str) -> Problem:
    return Problem(
        what=what,
        where=where,
        expected=f"at most {MOST} tags; keys of 1 to {_LONGEST_KEY} and values of up to {_LONGEST_VALUE} "
        f"letters, digits, spaces and any of {_SIGNS}; no key that begins with aws:",
        why="AWS refuses it, for some of the resources at least",
        fix="leave the tag out, or write it with these characters",
        rule=RULE,
    )
