"""`fleet history --verify`: compare the bytes in the repository with the published digests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from triton_models.base.errors import Problem, raise_if_any
from triton_models.repository.documents import request_name
from triton_models.repository.download import read_digest
from triton_models.repository.manifest import Repository
from triton_models.repository.published import PublishedArtifact
from triton_models.repository.s3 import workers

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An object that the manifest records."""

    name: str
    sha256: str


def verify(rows: Sequence[PublishedArtifact], repository: Repository, s3: S3Client) -> int:
    """Read each artifact and its documents, and compare the digests with the manifest's.

    The manifest alone gives no protection against someone who can write it as well. Its reader therefore
    refuses a digest that does not begin with the digits in the artifact's name, which clients and templates
    contain.

    Raises:
        FleetError: Objects are missing or differ; all are listed.
        botocore.exceptions.ClientError: S3 refuses.
    """
    wanted = tuple(dict.fromkeys(each for row in rows for each in _recorded(row)))
    with workers() as pool:
        names = [each.name for each in wanted]
        found = tuple(pool.map(partial(read_digest, repository=repository, s3=s3), names))
    raise_if_any(
        _differs(each, sha256, repository)
        for each, sha256 in zip(wanted, found, strict=True)
        if sha256 != each.sha256
    )
    return len(wanted)


def _recorded(row: PublishedArtifact) -> Iterator[Recorded]:
    yield Recorded(name=row.artifact, sha256=row.record.sha256)
    if row.record.request:
        yield Recorded(name=request_name(row.record.request), sha256=row.record.request)


def _differs(wanted: Recorded, found: str | None, repository: Repository) -> Problem:
    return Problem(
        what="the object is missing"
        if found is None
        else f"the object has other content: SHA-256 {found}, not {wanted.sha256}",
        where=f"{repository.url}{wanted.name}",
        why="endpoints would load other content than was checked and published",
        fix="find out in CloudTrail who changed it, and restore the published version",
        rule="artifact-gone" if found is None else "artifact-changed",
    )
