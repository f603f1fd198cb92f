"""The prefix of a model repository is one that names of objects and policies take as it is."""

from __future__ import annotations

import re

from triton_models.errors import Problem

RULE = "repository-prefix"
# Read on 2026-11-21: characters that are safe in keys; a star or a dollar means something else in a policy.
SOURCE = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html"

_PREFIX = re.compile(r"[A-Za-z0-9!_.()'/-]{0,512}")


def repository_prefix(prefix: str | None, *, where: str) -> Problem | None:
    """The problem with a prefix; None is one not known yet."""
    if prefix is None or (_PREFIX.fullmatch(prefix) and "//" not in prefix.strip("/") and prefix.strip("/")):
        return None
    return Problem(
        what=f"the prefix is {prefix[:60]!a}",
        where=where,
        expected="folders such as models/ or search/models/, of letters, digits and any of !_.()'-",
        why="it is in the URL of every model and in every policy that lets a model be read",
        fix="write it with these characters, without an empty folder",
        rule=RULE,
    )
