"""An existing bucket is named like a bucket, and comes with the key that encrypts it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from triton_models.base.errors import Problem

RULE = "existing-bucket"
# Read on 2026-11-22.
SOURCE = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html"

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def existing_bucket(*, bucket: bool, key: bool, access_logs: bool, where: str) -> Iterator[Problem]:
    """The problems with what is given together.

    Args:
        bucket: Whether a bucket is given.
        key: Whether its key is.
        access_logs: Whether access logs are asked for.
        where: What the problems are reported for.
    """
    if bucket and not key:
        yield Problem(
            what="a bucket is given without its key",
            where=where,
            expected="bucket and encryption_key together",
            why="whoever reads or publishes a model needs a permission for the key",
            fix="give the key that the bucket's default encryption names",
            rule=RULE,
        )
    if bucket and access_logs:
        yield Problem(
            what="access logs are asked for, of a bucket that exists",
            where=where,
            expected="no access_logs",
            why="a stack changes nothing about a bucket that it does not own",
            fix="configure the logs where the bucket is made, and leave access_logs out",
            rule=RULE,
        )


def bucket_name(name: str | None, *, where: str) -> Problem | None:
    """The problem with a bucket's name; None is no bucket."""
    if name is None or (_NAME.fullmatch(name) and ".." not in name):
        return None
    return Problem(
        what=f"the bucket is {name[:80]!a}",
        where=where,
        expected="the name of a bucket: 3 to 63 lower-case letters, digits, dots and hyphens",
        why="S3 has no bucket of another name",
        fix="give the name alone, without s3:// and without a prefix",
        rule=RULE,
    )
