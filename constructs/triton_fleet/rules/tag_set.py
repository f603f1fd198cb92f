"""Tags are ones that AWS takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from triton_models.errors import Problem

RULE = "tags"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Tag.html"

MOST = 50
_KEY = re.compile(r"[\w\s.:/=+@-]{1,128}")
_VALUE = re.compile(r"[\w\s.:/=+@-]{0,256}")


def tag_set(tags: Mapping[str, str | None], *, where: str) -> Iterator[Problem]:
    """The problems with tags; a value that is known only at deployment is None."""
    if len(tags) > MOST:
        yield _problem(f"{len(tags)} tags", where)
    for key, value in tags.items():
        reserved = key.lower().startswith("aws:")
        if reserved or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value or ""):
            yield _problem(f"a tag is {key[:40]!a}: {(value or '')[:40]!a}", where)


def _problem(what: str, where: str) -> Problem:
    return Problem(
        what=what,
        where=where,
        expected=f"at most {MOST} tags; keys of 1 to 128 and values of up to 256 letters, digits, spaces and "
        "any of _.:/=+-@; no key that begins with aws:",
        why="AWS refuses it, for some of the resources at least",
        fix="leave the tag out, or write it with these characters",
        rule=RULE,
    )
