"""Detection of artifacts already in the repository, with as few requests as possible.

An object is written once, by a conditional request, with a SHA-256 that S3 verifies; the manifest names the
artifact only after that. An artifact in both the manifest and the listing, with equal sizes, is therefore
present with that content. An artifact only in the listing was left by an unfinished publication or written by
another tool, so its SHA-256 is requested. An object that another tool replaced with one of equal size is not
detected.
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

# S3 metadata: unlike the stored checksum, it needs no permission for the KMS key and comes with one HEAD.
SHA256 = "sha256"

# The number of keys in a response of ListObjectsV2.
_PAGE = 1000


def missing(
    wanted: Sequence[Artifact], manifest: Manifest, repository: Repository, s3: S3Client
) -> list[Artifact]:
    """Return the artifacts that are not in the repository, in order.

    Raises:
        FleetError: Some objects have the same names but other content; all are listed.
    """
    found = _stored(wanted, manifest, repository, s3)
    raise_if_any(
        other_content(artifact, repository, found=found[artifact.name] or "unknown")
        for artifact in wanted
        if found[artifact.name] not in (None, artifact.sha256)
    )
    return [artifact for artifact in wanted if found[artifact.name] is None]


def stored_sha256(name: str, repository: Repository, s3: S3Client) -> str | None:
    """Return the SHA-256 stored with an object; "" if there is none, None if the object does not exist."""
    from botocore.exceptions import ClientError

    try:
        answer = s3.head_object(Bucket=repository.bucket, Key=repository.key(name))
    except ClientError as error:
        if error_code(error) in NOT_FOUND:
            return None
        raise
    return answer["Metadata"].get(SHA256, "")


def other_content(artifact: Artifact, repository: Repository, *, found: str) -> Problem:
    """Return the problem of an object that has an artifact's name but other content."""
    return Problem(
        what=f"an object of that name has other content: SHA-256 {found}, not {artifact.sha256}",
        where=f"{repository.url}{artifact.name}",
        why="objects are never overwritten, because instances may have the old content",
        fix="find out who wrote the object, and delete it only if it is unused",
        rule="artifact-changed",
    )


def _stored(
    wanted: Sequence[Artifact], manifest: Manifest, repository: Repository, s3: S3Client
) -> dict[str, str | None]:
    """Yield each artifact's file name with the `stored_sha256` of its object."""
    known = sum(len(model.artifacts) for model in manifest.models.values())
    asked = {artifact.name for artifact in wanted}
    found: dict[str, str | None] = {}
    # Pages of a listing are sequential; requests for single objects run in parallel.
    if len(wanted) > THREADS * (1 + known / _PAGE):
        sizes = _listed(repository, s3)
        for artifact in wanted:
            name = artifact.name
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
    """Return every object of the repository with its size."""
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=repository.bucket, Prefix=repository.prefix, Delimiter="/"
    )
    return {
        each["Key"].removeprefix(repository.prefix): each["Size"]
        for page in pages
        for each in page.get("Contents", ())
    }
