"""Which artifacts are in the repository already, found out with as few requests as will do.

What is believed: an object is written once, by a conditional request, with a SHA-256 that S3 compares with
what arrives; and the manifest names an artifact only after that. So an artifact that the manifest records and
the listing shows, with the same size, is there with that content. One that only the listing shows was left by
a publisher that did not finish, or put there by someone else: it is asked for its SHA-256.
Not seen is a foreign tool that overwrote an object with another one of the same size.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from triton_models.base.errors import Problem, raise_if_any
from triton_models.pack.pack import Artifact
from triton_models.repository.manifest import Manifest, Repository
from triton_models.repository.s3 import NOT_FOUND, THREADS, error_code, workers

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# S3 metadata: unlike the stored checksum, reading it needs no right on the KMS key, and one HEAD gives it.
SHA256 = "sha256"

# The keys in one answer of ListObjectsV2.
_PAGE = 1000


def missing(
    wanted: Sequence[Artifact], manifest: Manifest, repository: Repository, s3: S3Client
) -> list[Artifact]:
    """The artifacts that are not in the repository, in their order.

    Raises:
        FleetError: Objects of some names hold something else; names each of them.
    """
    found = _stored(wanted, manifest, repository, s3)
    raise_if_any(
        other_content(artifact, repository, found=found[artifact.path.name] or "unknown")
        for artifact in wanted
        if found[artifact.path.name] not in (None, artifact.sha256)
    )
    return [artifact for artifact in wanted if found[artifact.path.name] is None]


def stored_sha256(name: str, repository: Repository, s3: S3Client) -> str | None:
    """The SHA-256 that an object was stored with; "" if it has none, None if there is no object."""
    from botocore.exceptions import ClientError

    try:
        answer = s3.head_object(Bucket=repository.bucket, Key=repository.key(name))
    except ClientError as error:
        if error_code(error) in NOT_FOUND:
            return None
        raise
    return answer["Metadata"].get(SHA256, "")


def other_content(artifact: Artifact, repository: Repository, *, found: str) -> Problem:
    """The problem with an object that has an artifact's name and not its content."""
    return Problem(
        what=f"an object of that name holds something else: SHA-256 {found}",
        where=f"{repository.url}{artifact.path.name}",
        expected=artifact.sha256,
        why="an object is never overwritten: instances may hold the old content",
        fix="find out who wrote it, and delete it only if nothing uses it",
        rule="artifact-changed",
    )


def _stored(
    wanted: Sequence[Artifact], manifest: Manifest, repository: Repository, s3: S3Client
) -> dict[str, str | None]:
    """Each artifact's file name with the SHA-256 of its object, as `stored_sha256` gives it."""
    known = sum(len(model.artifacts) for model in manifest.models.values())
    asked = {artifact.path.name for artifact in wanted}
    found: dict[str, str | None] = {}
    # Pages of a list come one after the other, questions about single objects many at a time.
    if len(wanted) > THREADS * (1 + known / _PAGE):
        sizes = _listed(repository, s3)
        for artifact in wanted:
            name = artifact.path.name
            record = manifest.record(model=artifact.model, artifact=name)
            if name not in sizes:
                found[name] = None
            elif record is not None and record.sha256 == artifact.sha256 and record.size == sizes[name]:
                found[name] = record.sha256
        asked -= found.keys()
    ask = partial(stored_sha256, repository=repository, s3=s3)
    with workers() as pool:
        return found | dict(zip(asked, pool.map(ask, asked), strict=True))


def _listed(repository: Repository, s3: S3Client) -> dict[str, int]:
    """Every object of the repository with its size."""
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=repository.bucket, Prefix=repository.prefix, Delimiter="/"
    )
    return {
        each["Key"].removeprefix(repository.prefix): each["Size"]
        for page in pages
        for each in page.get("Contents", ())
    }
