"""The manifest in S3: read with what identifies it, replaced only if it is still the one that was read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from triton_models.repository.manifest import MANIFEST_NAME, Manifest, Repository
from triton_models.repository.s3 import LOST_RACE, NOT_FOUND, aws_errors, error_code

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Every lost round means that another writer's went through, so this many losses are no accident.
ROUNDS = 50

# How long a client may go on with the manifest that it read, in seconds.
MANIFEST_AGE_S = 30.0

# The SDK repeats a request, but not the reading of an answer that breaks off.
_READS = 3
_NOT_MODIFIED = frozenset({"304", "NotModified"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredManifest:
    """A manifest as it was read.

    Attributes:
        manifest: What it says; an empty one while there is none.
        tag: Its entity tag; None while there is none.
        at: When it was read, by S3's clock. This machine's clock may be off.
    """

    manifest: Manifest
    tag: str | None
    at: datetime


def read_manifest(repository: Repository, *, s3: S3Client) -> Manifest:
    """A repository's manifest; an empty one before the first publication.

    Raises:
        FleetError: The object is not a manifest, or S3 refuses.
    """
    with aws_errors(repository.url):
        return read(repository, s3).manifest


def read(repository: Repository, s3: S3Client, *, known: StoredManifest | None = None) -> StoredManifest:
    """The manifest with its entity tag.

    Args:
        repository: Whose.
        s3: The client to use.
        known: What was read before. If it has not changed, nothing but that is sent and read.
    """
    from botocore.exceptions import ClientError

    unless = {"IfNoneMatch": known.tag} if known is not None and known.tag else {}
    try:
        answer = _get(s3, Bucket=repository.bucket, Key=repository.key(MANIFEST_NAME), **unless)
    except ClientError as error:
        if known is not None and error_code(error) in _NOT_MODIFIED:
            return StoredManifest(manifest=known.manifest, tag=known.tag, at=_date(error.response))
        if error_code(error) in NOT_FOUND:
            empty = Manifest(where=repository.manifest_url)
            return StoredManifest(manifest=empty, tag=None, at=_date(error.response))
        raise
    manifest = Manifest.from_json(answer["Body"], where=repository.manifest_url)
    return StoredManifest(manifest=manifest, tag=answer["ETag"], at=_date(answer))


def replaced(stored: StoredManifest, new: Manifest, repository: Repository, s3: S3Client) -> bool:
    """Write a manifest in the place of the one that was read; False if it is not there any more."""
    from botocore.exceptions import ClientError

    only: Any = {"IfNoneMatch": "*"} if stored.tag is None else {"IfMatch": stored.tag}
    try:
        s3.put_object(
            Bucket=repository.bucket,
            Key=repository.key(MANIFEST_NAME),
            Body=new.to_json().encode(),
            ContentType="application/json",
            **only,
        )
    except ClientError as error:
        if error_code(error) in LOST_RACE | NOT_FOUND:
            return False
        raise
    return True


def _get(s3: S3Client, **request: Any) -> dict[str, Any]:
    """An object's answer with its whole body."""
    import botocore.exceptions as aws

    for left in reversed(range(_READS)):
        answer: dict[str, Any] = dict(s3.get_object(**request))
        try:
            return {**answer, "Body": answer["Body"].read()}
        except (aws.HTTPClientError, aws.IncompleteReadError, aws.FlexibleChecksumError):
            if not left:
                raise
    raise AssertionError  # the last read returns or raises


def _date(answer: Any) -> datetime:
    said = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    moment = parsedate_to_datetime(said) if said else datetime.now(timezone.utc)
    return moment.astimezone(timezone.utc)
