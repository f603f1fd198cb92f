"""The prefix of a model repository is one that names of objects and policies take as it is."""

from __future__ import annotations

import re

from triton_models.base.errors import Problem

RULE = "repository-prefix"
# Read on 2026-11-21: characters that are safe in keys; a star or a dollar means something else in a policy.
SOURCE = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html"

_PREFIX = re.compile(r"[A-Za-z0-9!_.()'/-]*")
# A key has 1024 bytes; the other half is left to the names of artifacts.
_LONGEST = 512
_ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")


def repository_prefix(prefix: str | None, *, where: str) -> Problem | None:
    """The problem with a prefix; None is one not known yet."""
    if prefix is None:
        return None
    if prefix.strip("/").lower().endswith(_ARCHIVES):
        return Problem(
            what=f"the prefix {prefix[:60]!a} names an archive",
            where=where,
            expected="the folder that holds the artifacts, such as models/",
            why="a prefix gets a final slash: the repository would be empty",
            fix="leave the file name out; a model's artifact is named by whoever invokes it",
            rule=RULE,
        )
    folders = prefix.strip("/")
    too_long = len(prefix) > _LONGEST
    if _PREFIX.fullmatch(prefix) and folders and "//" not in folders and not too_long:
        return None
    return Problem(
        what=f"the prefix is {prefix[:60]!a}" + f" and goes on to {len(prefix)} characters" * too_long,
        where=where,
        expected="folders such as models/ or search/models/, of letters, digits and any of !_.()'-, at most "
        f"{_LONGEST} characters together",
        why="it is in the URL of every model and in every policy that lets a model be read",
        fix=f"shorten it to {_LONGEST} characters"
        if too_long
        else "write it with these characters, without an empty folder",
        rule=RULE,
    )
