"""Upload of artifacts to S3: small ones in parallel, large ones in parts, never over existing objects."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Executor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from triton_models.artifact.pack.pack import Artifact
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.base.outcome import progress
from triton_models.repository.manifest import Manifest, Repository
from triton_models.repository.s3 import LOST_RACE, NOT_FOUND, THREADS, contended, error_code, workers

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

# The maximum number of parts of an S3 object; each except the last has at least 5 MiB.
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html, read 2026-11-21
MAX_PARTS = 10_000

# An artifact up to this size is uploaded in one request, a larger one in parts of at least this size.
PART_BYTES = 64 << 20

_ROUNDS = 5
_CHUNK_BYTES = 1 << 20
_CONTENT_TYPE = "application/gzip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a large artifact."""

    number: int
    start: int
    size: int
    sha256: str


def upload(
    artifacts: Sequence[Artifact], repository: Repository, s3: S3Client, *, part_bytes: int = PART_BYTES
) -> list[str]:
    """Upload artifacts to the repository.

    Small ones are uploaded in parallel. Large ones follow one after the other, each with parallel parts.
    After an error no new upload starts; completed ones remain, and the next attempt does not repeat them.

    Raises:
        FleetError: An object with an artifact's name has other content.
        botocore.exceptions.ClientError: S3 refuses.
    """
    small = [artifact for artifact in artifacts if artifact.size <= part_bytes]
    large = [artifact for artifact in artifacts if artifact.size > part_bytes]
    sent: list[str] = []
    with workers() as pool:
        shown = _Progress(artifacts)
        futures = {pool.submit(_sent_whole, each, repository, s3, shown): each for each in small}
        for artifact in large:
            if _sent_in_parts(artifact, repository, s3, pool, part_bytes=part_bytes, shown=shown):
                sent.append(artifact.name)
        sent += [artifact.name for future, artifact in futures.items() if future.result()]
    return sent


def _sent_whole(artifact: Artifact, repository: Repository, s3: S3Client, shown: _Progress) -> bool:
    """Upload an artifact in one request; return False if another publisher was faster."""

    def put() -> None:
        with artifact.path.open("rb") as body:
            s3.put_object(
                Bucket=repository.bucket,
                Key=repository.key(artifact.name),
                Body=body,
                ContentType=_CONTENT_TYPE,
                ChecksumAlgorithm="SHA256",
                ChecksumSHA256=_base64(bytes.fromhex(artifact.sha256)),
                Metadata={SHA256: artifact.sha256},
                IfNoneMatch="*",
            )
        shown.add(artifact.size)

    return _written_once(put, artifact, repository, s3)


def _sent_in_parts(
    artifact: Artifact,
    repository: Repository,
    s3: S3Client,
    pool: Executor,
    *,
    part_bytes: int,
    shown: _Progress,
) -> bool:
    """Upload an artifact in parts; return False if another publisher was faster."""
    parts = parts_of(artifact, part_bytes=part_bytes)

    def put() -> None:
        target: dict[str, Any] = {"Bucket": repository.bucket, "Key": repository.key(artifact.name)}
        begun = s3.create_multipart_upload(
            **target,
            ContentType=_CONTENT_TYPE,
            ChecksumAlgorithm="SHA256",
            ChecksumType="COMPOSITE",
            Metadata={SHA256: artifact.sha256},
        )
        target["UploadId"] = begun["UploadId"]
        try:
            send = partial(_sent_part, artifact.path, s3, target, shown)
            s3.complete_multipart_upload(
                **target,
                MultipartUpload={"Parts": _all_or_none(pool, send, parts)},
                MpuObjectSize=artifact.size,
                IfNoneMatch="*",
            )
        except BaseException:
            # Its parts would be billed until the bucket's lifecycle rule removes them.
            with contextlib.suppress(Exception):
                s3.abort_multipart_upload(**target)
            raise

    return _written_once(put, artifact, repository, s3)


def _all_or_none(pool: Executor, send: Any, parts: Sequence[Part]) -> list[CompletedPartTypeDef]:
    """Upload all parts; after an error wait for active ones, so that the upload can be aborted."""
    futures = [pool.submit(send, part) for part in parts]
    try:
        return [future.result() for future in futures]
    except BaseException:
        for future in futures:
            future.cancel()
        wait(futures)
        raise


def _sent_part(
    path: Path, s3: S3Client, target: dict[str, Any], shown: _Progress, part: Part
) -> CompletedPartTypeDef:
    from s3transfer.utils import ReadFileChunk

    with ReadFileChunk.from_filename(str(path), part.start, part.size) as body:
        answer = s3.upload_part(
            **target,
            PartNumber=part.number,
            Body=cast("IO[bytes]", body),
            ChecksumAlgorithm="SHA256",
            ChecksumSHA256=part.sha256,
        )
    shown.add(part.size)
    return {"PartNumber": part.number, "ETag": answer["ETag"], "ChecksumSHA256": part.sha256}


def _written_once(put: Any, artifact: Artifact, repository: Repository, s3: S3Client) -> bool:
    """Write an object unless it exists; return False if it exists with the same content."""
    from botocore.exceptions import ClientError

    for _ in range(_ROUNDS):
        try:
            put()
        except ClientError as error:
            # NoSuchUpload: an earlier attempt completed the upload, and its response was lost.
            if error_code(error) not in LOST_RACE | NOT_FOUND | {"NoSuchUpload"}:
                raise
            found = stored_sha256(artifact.name, repository, s3)
            if found == artifact.sha256:
                return False
            if found is not None:
                raise FleetError([other_content(artifact, repository, found=found or "unknown")]) from None
        else:
            return True
    raise contended(f"{repository.url}{artifact.name}")


def parts_of(artifact: Artifact, *, part_bytes: int) -> list[Part]:
    """Divide an artifact into parts with their SHA-256.

    The digests of the parts and of the entire file come from one reading. S3 verifies each part, so the
    stored object matches the digest in the artifact's name even if the file changes meanwhile.

    Raises:
        FleetError: The file has changed.
    """
    size = max(part_bytes, -(-artifact.size // MAX_PARTS))
    whole = hashlib.sha256()
    parts = []
    with artifact.path.open("rb") as file:
        for number, start in enumerate(range(0, artifact.size, size), start=1):
            digest, left = hashlib.sha256(), min(size, artifact.size - start)
            length = left
            while left and (chunk := file.read(min(left, _CHUNK_BYTES))):
                digest.update(chunk)
                whole.update(chunk)
                left -= len(chunk)
            parts.append(
                Part(number=number, start=start, size=length - left, sha256=_base64(digest.digest()))
            )
    if whole.hexdigest() == artifact.sha256:
        return parts
    raise FleetError.of(
        what=f"the content's SHA-256 is {whole.hexdigest()}, not {artifact.sha256}",
        where=str(artifact.path),
        why="the file has changed since it was checked",
        fix="pack the model again",
        rule="artifact-changed",
    )


class _Progress:
    """A progress display in the terminal, updated at most once per second."""

    def __init__(self, artifacts: Sequence[Artifact]) -> None:
        self._total = sum(artifact.size for artifact in artifacts)
        self._done = 0
        self._count = len(artifacts)
        self._told_at = 0.0
        self._lock = threading.Lock()

    def add(self, size: int) -> None:
        with self._lock:
            self._done += size
            now = time.monotonic()
            if now - self._told_at < 1 and self._done < self._total:
                return
            self._told_at = now
            progress(
                f"uploading {self._count} artifacts: {self._done / 1e6:,.1f} of {self._total / 1e6:,.1f} MB"
            )


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


# S3 metadata: unlike the stored checksum, it needs no permission for the KMS key and comes with one HEAD.
SHA256 = "sha256"

# The number of keys in a response of ListObjectsV2.
_PAGE = 1000


def missing(
    wanted: Sequence[Artifact], manifest: Manifest, repository: Repository, s3: S3Client
) -> list[Artifact]:
    """Return the artifacts that are not in the repository, in order, with as few requests as possible.

    The manifest names an artifact only after its object was written, once and with a SHA-256 that S3
    verified. So what is in the manifest and in the listing, with equal sizes, is present. The SHA-256 of
    other objects is requested. An object that another tool replaced with one of equal size is not detected.

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
