"""Checks of a repository: its bucket, its prefix, and the weights that build jobs fetch."""

from __future__ import annotations

import re
from collections.abc import Iterator

from triton_models.base.checks import Check
from triton_models.base.errors import Problem
from triton_models.facts.instances import Gpu, InstanceType

EXISTING_BUCKET = Check(
    id="existing-bucket",
    source="2026-11-22: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html",
)
"""An existing bucket is named like a bucket, and comes with the key that encrypts it."""

_BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def existing_bucket(*, bucket: bool, key: bool, access_logs: bool, where: str) -> Iterator[Problem]:
    """The problems with what is given together.

    Args:
        bucket: Whether a bucket is given.
        key: Whether its key is.
        access_logs: Whether access logs are asked for.
        where: What the problems are reported for.
    """
    if bucket and not key:
        yield EXISTING_BUCKET.problem(
            what="a bucket is given without its key",
            where=where,
            expected="bucket and encryption_key together",
            why="whoever reads or publishes a model needs a permission for the key",
            fix="give the key that the bucket's default encryption names",
        )
    if bucket and access_logs:
        yield EXISTING_BUCKET.problem(
            what="access logs are asked for, of a bucket that exists",
            where=where,
            expected="no access_logs",
            why="a stack changes nothing about a bucket that it does not own",
            fix="configure the logs where the bucket is made, and leave access_logs out",
        )


def bucket_name(name: str | None, *, where: str) -> Iterator[Problem]:
    """The problem with a bucket's name; None is no bucket."""
    if name is None or (_BUCKET_NAME.fullmatch(name) and ".." not in name):
        return
    yield EXISTING_BUCKET.problem(
        what=f"the bucket is {name[:80]!a}",
        where=where,
        expected="the name of a bucket: 3 to 63 lower-case letters, digits, dots and hyphens",
        why="S3 has no bucket of another name",
        fix="give the name alone, without s3:// and without a prefix",
    )


# Characters that are safe in keys; a star or a dollar means something else in a policy.
REPOSITORY_PREFIX = Check(
    id="repository-prefix",
    source="2026-11-21: https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html",
)
"""The prefix of a model repository is one that names of objects and policies take as it is."""

_PREFIX = re.compile(r"[A-Za-z0-9!_.()'/-]*")
# A key has 1024 bytes; the other half is left to the names of artifacts.
_LONGEST_PREFIX = 512
_ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")


def repository_prefix(prefix: str | None, *, where: str) -> Iterator[Problem]:
    """The problem with a prefix; None is one not known yet."""
    if prefix is None:
        return
    if prefix.strip("/").lower().endswith(_ARCHIVES):
        yield REPOSITORY_PREFIX.problem(
            what=f"the prefix {prefix[:60]!a} names an archive",
            where=where,
            expected="the folder that holds the artifacts, such as models/",
            why="a prefix gets a final slash: the repository would be empty",
            fix="leave the file name out; a model's artifact is named by whoever invokes it",
        )
        return
    folders = prefix.strip("/")
    too_long = len(prefix) > _LONGEST_PREFIX
    if _PREFIX.fullmatch(prefix) and folders and "//" not in folders and not too_long:
        return
    yield REPOSITORY_PREFIX.problem(
        what=f"the prefix is {prefix[:60]!a}" + f" and goes on to {len(prefix)} characters" * too_long,
        where=where,
        expected="folders such as models/ or search/models/, of letters, digits and any of !_.()'-, at most "
        f"{_LONGEST_PREFIX} characters together",
        why="every model's URL and every policy for reading one holds it",
        fix=f"shorten it to {_LONGEST_PREFIX} characters"
        if too_long
        else "write it with these characters, without an empty folder",
    )


INSTANCE_POOLS = Check(
    id="instance-pools",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-heterogeneous.html",
)
"""Instance types that stand in for each other: at most five, each once, all able to run the model."""


def same_gpu(preferred: InstanceType, other: InstanceType, *, where: str) -> Iterator[Problem]:
    """The problem with running the very same model on two instance types."""
    if preferred.gpu == other.gpu:
        return
    yield INSTANCE_POOLS.problem(
        what=f"{other.name} has {gpu_named(other.gpu)}, {preferred.name} has {gpu_named(preferred.gpu)}",
        where=where,
        expected=f"instance types that all have {gpu_named(preferred.gpu)}",
        why="a TensorRT plan is for one GPU model: on another, every load would fail",
        fix=f"choose sizes of the family of {preferred.name}; a single-model endpoint may give each type an "
        "artifact of its own",
    )


def gpu_named(gpu: Gpu | None) -> str:
    """A GPU in an error."""
    return "no GPU" if gpu is None else f"GPU {gpu.name}"
