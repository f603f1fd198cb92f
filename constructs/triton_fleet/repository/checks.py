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
"""An existing bucket has a valid name, and comes with the key that encrypts it."""

_BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def existing_bucket(*, bucket: bool, key: bool, access_logs: bool, where: str) -> Iterator[Problem]:
    """The problems with a bucket, its key and its access logs together.

    Args:
        bucket: A bucket is given.
        key: Its key is given.
        access_logs: Access logs are requested.
        where: The place that the problems name.
    """
    if bucket and not key:
        yield EXISTING_BUCKET.problem(
            what="a bucket is given without its key",
            where=where,
            expected="bucket and encryption_key together",
            why="reading and publishing models needs permissions for the key",
            fix="add the key of the bucket's default encryption",
        )
    if bucket and access_logs:
        yield EXISTING_BUCKET.problem(
            what="access_logs is given for an existing bucket",
            where=where,
            expected="no access_logs",
            why="a stack cannot change a bucket that it does not own",
            fix="configure the logs where the bucket is created, and remove access_logs",
        )


def own_policies(*, owned: bool, where: str) -> Iterator[Problem]:
    """The problem with changing the policies of a bucket or a key that exist.

    Args:
        owned: True if both belong to the stack.
        where: The place that the problem names.
    """
    if not owned:
        yield EXISTING_BUCKET.problem(
            what="the bucket or its key is not the stack's own",
            where=where,
            expected="a bucket and a key that the stack creates",
            why="a stack cannot change the policies of others",
            fix="allow the role in the policies of the bucket and the key where they are created",
        )


def bucket_name(name: str | None, *, where: str) -> Iterator[Problem]:
    """The problem with a bucket's name; None is no bucket."""
    if name is None or (_BUCKET_NAME.fullmatch(name) and ".." not in name):
        return
    yield EXISTING_BUCKET.problem(
        what=f"the bucket is {name[:80]!a}",
        where=where,
        expected="the name of a bucket: 3 to 63 lower-case letters, digits, dots and hyphens",
        why="",
        fix="use only the name, without s3:// and without a prefix",
    )


# Characters that are safe in keys; a star or a dollar has another meaning in a policy.
REPOSITORY_PREFIX = Check(
    id="repository-prefix",
    source="2026-11-21: https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html",
)
"""The prefix of a model repository is valid in keys and policies without escaping."""

_PREFIX = re.compile(r"[A-Za-z0-9!_.()'/-]*")
# A key has 1024 bytes; the other half is left to the names of artifacts.
_LONGEST_PREFIX = 512
_ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")


def repository_prefix(prefix: str | None, *, where: str) -> Iterator[Problem]:
    """The problem with a prefix; None if it is known only at deployment."""
    if prefix is None:
        return
    if prefix.strip("/").lower().endswith(_ARCHIVES):
        yield REPOSITORY_PREFIX.problem(
            what=f"the prefix {prefix[:60]!a} names an archive",
            where=where,
            expected="the folder that holds the artifacts, such as models/",
            why="a prefix ends with a slash, so the repository would be empty",
            fix="remove the file name",
        )
        return
    folders = prefix.strip("/")
    too_long = len(prefix) > _LONGEST_PREFIX
    if _PREFIX.fullmatch(prefix) and folders and "//" not in folders and not too_long:
        return
    yield REPOSITORY_PREFIX.problem(
        what=f"the prefix is {prefix[:60]!a}" + f"..., with {len(prefix)} characters" * too_long,
        where=where,
        expected="folders such as models/ or search/models/, with letters, digits and any of !_.()'-, and at "
        f"most {_LONGEST_PREFIX} characters",
        why="the URLs of models and the policies for reading them contain it",
        fix=f"shorten it to {_LONGEST_PREFIX} characters"
        if too_long
        else "use only these characters, and no empty folder",
    )


INSTANCE_POOLS = Check(
    id="instance-pools",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-heterogeneous.html",
)
"""The instance types of a pool can all run the model."""


def same_gpu(preferred: InstanceType, other: InstanceType, *, where: str) -> Iterator[Problem]:
    """The problem with running the very same model on two instance types."""
    if preferred.gpu == other.gpu:
        return
    yield INSTANCE_POOLS.problem(
        what=f"{other.name} has {gpu_named(other.gpu)}, {preferred.name} has {gpu_named(preferred.gpu)}",
        where=where,
        expected=f"instance types that all have {gpu_named(preferred.gpu)}",
        why="a TensorRT plan is for one GPU model: on another, every load would fail",
        fix=f"use other sizes from the family of {preferred.name}, or a single-model endpoint with an "
        "artifact for each type",
    )


def gpu_named(gpu: Gpu | None) -> str:
    """Name a GPU in an error."""
    return "no GPU" if gpu is None else f"GPU {gpu.name}"
