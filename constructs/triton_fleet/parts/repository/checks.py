"""Checks of a repository: its bucket, its prefix, and the weights that build jobs fetch."""

from __future__ import annotations

import re

from triton_models.base.checks import Check, Report
from triton_models.facts.instances import Gpu, InstanceType

EXISTING_BUCKET = Check(
    id="existing-bucket",
    source="2026-11-22: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html",
)
"""An existing bucket has a valid name, and comes with the key that encrypts it."""

_BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def existing_bucket(report: Report, *, bucket: bool, key: bool, access_logs: bool) -> None:
    """Report problems with a bucket, its key and its access logs together."""
    if bucket and not key:
        report(
            EXISTING_BUCKET,
            "a bucket is given without its key",
            fix="add the key of the bucket's default encryption",
            why="reading and publishing models needs permissions for the key",
        )
    if bucket and access_logs:
        report(
            EXISTING_BUCKET,
            "access_logs is given for an existing bucket",
            fix="configure the logs where the bucket is created, and remove access_logs",
            why="a stack cannot change a bucket that it does not own",
        )


def own_policies(report: Report, *, owned: bool) -> None:
    """Report problems with changing the policies of a bucket or a key that exist."""
    if not owned:
        report(
            EXISTING_BUCKET,
            "the bucket or its key is not the stack's own",
            fix="allow the role in the policies of the bucket and the key where they are created",
            why="a stack cannot change the policies of others",
        )


def bucket_name(report: Report, name: str | None) -> None:
    """Report problems with a bucket's name; None is no bucket."""
    if name is None or (_BUCKET_NAME.fullmatch(name) and ".." not in name):
        return
    report(
        EXISTING_BUCKET,
        f"the bucket is {name[:80]!a}",
        fix="use only the name: 3 to 63 lower-case letters, digits, dots and hyphens, without s3://",
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


def repository_prefix(report: Report, prefix: str | None) -> None:
    """Report problems with a prefix; None if it is known only at deployment."""
    if prefix is None:
        return
    if prefix.strip("/").lower().endswith(_ARCHIVES):
        report(
            REPOSITORY_PREFIX,
            f"the prefix {prefix[:60]!a} names an archive",
            fix="remove the file name",
            why="a prefix ends with a slash, so the repository would be empty",
        )
        return
    folders = prefix.strip("/")
    too_long = len(prefix) > _LONGEST_PREFIX
    if _PREFIX.fullmatch(prefix) and folders and "//" not in folders and not too_long:
        return
    report(
        REPOSITORY_PREFIX,
        f"the prefix is {prefix[:60]!a}" + f"..., with {len(prefix)} characters" * too_long,
        fix=f"shorten it to {_LONGEST_PREFIX} characters"
        if too_long
        else "use folders such as models/ or search/models/, of letters, digits and any of !_.()'-",
        why="the URLs of models and the policies for reading them contain it",
    )


INSTANCE_POOLS = Check(
    id="instance-pools",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-heterogeneous.html",
)
"""The instance types of a pool can all run the model."""


def same_gpu(report: Report, preferred: InstanceType, other: InstanceType) -> None:
    """Report problems with running the very same model on two instance types."""
    if preferred.gpu == other.gpu:
        return
    report(
        INSTANCE_POOLS,
        f"{other.name} has {gpu_named(other.gpu)}, {preferred.name} has {gpu_named(preferred.gpu)}",
        fix=f"use other sizes from the family of {preferred.name}, or a single-model endpoint with an "
        "artifact for each type",
        why="a TensorRT plan is for one GPU model: on another, every load would fail",
    )


def gpu_named(gpu: Gpu | None) -> str:
    """Name a GPU in an error."""
    return "no GPU" if gpu is None else f"GPU {gpu.name}"
