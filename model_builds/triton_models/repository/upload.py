"""Upload of artifacts to S3: small ones in parallel, large ones in parts, never over existing objects."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, cast

from triton_models.artifact.pack.pack import Artifact
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.base.outcome import progress
from triton_models.repository.manifest import Manifest
from triton_models.repository.objects import ARTIFACT_CHANGED, SHA256, Store
from triton_models.repository.s3 import LOST_RACE, NOT_FOUND, THREADS, contended, error_code, in_parallel

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

# The maximum number of parts of an S3 object; each except the last has at least 5 MiB.
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html, read 2026-11-21
MAX_PARTS = 10_000

# An artifact up to this size is uploaded in one request, a larger one in parts of at least this size.
PART_BYTES = 64 << 20

_ROUNDS = 5
_CHUNK_BYTES = 1 << 20
_PAGE = 1000  # keys in a response of ListObjectsV2


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a large artifact."""

    number: int
    start: int
    size: int
    sha256: str


def upload(artifacts: Sequence[Artifact], store: Store, *, part_bytes: int = PART_BYTES) -> list[str]:
    """Upload artifacts, and return the names of those that were not there.

    Small ones are uploaded in parallel, then large ones one after the other, each with parallel parts. After
    an error no new upload starts; completed ones remain, and the next attempt does not repeat them.
    """
    small = [artifact for artifact in artifacts if artifact.size <= part_bytes]
    large = [artifact for artifact in artifacts if artifact.size > part_bytes]
    shown = _Progress(artifacts)
    sent = in_parallel(lambda each: _written_once(partial(_put, each, store, shown), each, store), small)
    for each in large:
        parts = parts_of(each, part_bytes=part_bytes)
        sent.append(_written_once(partial(_put_parts, each, parts, store, shown), each, store))
    return [artifact.name for artifact, is_new in zip([*small, *large], sent, strict=True) if is_new]


def _put(artifact: Artifact, store: Store, shown: _Progress) -> None:
    with artifact.path.open("rb") as body:
        store.s3.put_object(
            **store.at(artifact.name),
            Body=body,
            ContentType="application/gzip",
            ChecksumAlgorithm="SHA256",
            ChecksumSHA256=_base64(bytes.fromhex(artifact.sha256)),
            Metadata={SHA256: artifact.sha256},
            IfNoneMatch="*",
        )
    shown.add(artifact.size)


def _put_parts(artifact: Artifact, parts: Sequence[Part], store: Store, shown: _Progress) -> None:
    from s3transfer.utils import ReadFileChunk

    s3, target = store.s3, store.at(artifact.name)

    def send(part: Part) -> CompletedPartTypeDef:
        with ReadFileChunk.from_filename(str(artifact.path), part.start, part.size) as body:
            answer = s3.upload_part(
                **target,
                PartNumber=part.number,
                Body=cast("IO[bytes]", body),
                ChecksumAlgorithm="SHA256",
                ChecksumSHA256=part.sha256,
            )
        shown.add(part.size)
        return {"PartNumber": part.number, "ETag": answer["ETag"], "ChecksumSHA256": part.sha256}

    target["UploadId"] = s3.create_multipart_upload(
        **target,
        ContentType="application/gzip",
        ChecksumAlgorithm="SHA256",
        ChecksumType="COMPOSITE",
        Metadata={SHA256: artifact.sha256},
    )["UploadId"]
    try:
        s3.complete_multipart_upload(
            **target,
            MultipartUpload={"Parts": in_parallel(send, parts)},
            MpuObjectSize=artifact.size,
            IfNoneMatch="*",
        )
    except BaseException:
        # Its parts would be billed until the bucket's lifecycle rule removes them.
        with contextlib.suppress(Exception):
            s3.abort_multipart_upload(**target)
        raise


def _written_once(put: Callable[[], None], artifact: Artifact, store: Store) -> bool:
    """Write an object unless it exists; return False if it exists with the same content."""
    from botocore.exceptions import ClientError

    for _ in range(_ROUNDS):
        try:
            put()
        except ClientError as error:
            # NoSuchUpload: an earlier attempt completed the upload, and its response was lost.
            if error_code(error) not in LOST_RACE | NOT_FOUND | {"NoSuchUpload"}:
                raise
            found = store.sha256(artifact.name)
            if found == artifact.sha256:
                return False
            if found is not None:
                raise FleetError([_other_content(artifact, store, found=found)]) from None
        else:
            return True
    raise contended(f"{store.url}{artifact.name}")


def parts_of(artifact: Artifact, *, part_bytes: int) -> list[Part]:
    """Divide an artifact into parts with their SHA-256.

    The digests of the parts and of the entire file come from one reading. S3 verifies each part, so the
    stored object matches the digest in the artifact's name even if the file changes meanwhile.
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
            sha256 = _base64(digest.digest())
            parts.append(Part(number=number, start=start, size=length - left, sha256=sha256))
    if whole.hexdigest() == artifact.sha256:
        return parts
    raise ARTIFACT_CHANGED.error(
        what=f"the content's SHA-256 is {whole.hexdigest()}, not {artifact.sha256}",
        where=str(artifact.path),
        why="the file has changed since it was checked",
        fix="pack the model again",
    )


class _Progress:
    """A progress display in the terminal, updated at most once per second."""

    def __init__(self, artifacts: Sequence[Artifact]) -> None:
        self._count, self._total = len(artifacts), sum(artifact.size for artifact in artifacts)
        self._done, self._shown_at = 0, 0.0
        self._lock = threading.Lock()

    def add(self, size: int) -> None:
        with self._lock:
            self._done += size
            if time.monotonic() - self._shown_at >= 1 or self._done == self._total:
                self._shown_at = time.monotonic()
                done, total = (f"{size / 1e6:,.1f}" for size in (self._done, self._total))
                progress(f"uploading {self._count} artifacts: {done} of {total} MB")


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def missing(wanted: Sequence[Artifact], manifest: Manifest, store: Store) -> list[Artifact]:
    """Return the artifacts that are not in the repository, in order, with as few requests as possible.

    The manifest names an artifact only after its object was written, once and with a SHA-256 that S3
    verified. So what is in the manifest and in the listing, with equal sizes, is present. The SHA-256 of
    other objects is requested. An object that another tool replaced with one of equal size is not detected.
    """
    found = _stored(wanted, manifest, store)
    raise_if_any(
        _other_content(artifact, store, found=other)
        for artifact in wanted
        if (other := found[artifact.name]) not in (None, artifact.sha256)
    )
    return [artifact for artifact in wanted if found[artifact.name] is None]


def _other_content(artifact: Artifact, store: Store, *, found: str | None) -> Problem:
    return ARTIFACT_CHANGED.problem(
        what=f"an object of that name has other content: SHA-256 {found or 'unknown'}, not {artifact.sha256}",
        where=f"{store.url}{artifact.name}",
        why="objects are never overwritten, because instances may have the old content",
        fix="find out who wrote the object, and delete it only if it is unused",
    )


def _stored(wanted: Sequence[Artifact], manifest: Manifest, store: Store) -> dict[str, str | None]:
    """Return the `Store.sha256` of each artifact's object, by file name."""
    known = sum(len(model.artifacts) for model in manifest.models.values())
    asked = {artifact.name for artifact in wanted}
    found: dict[str, str | None] = {}
    # Pages of a listing are sequential; requests for single objects run in parallel.
    if len(wanted) > THREADS * (1 + known / _PAGE):
        sizes = {name: item["Size"] for name, item in store.list_objects(Delimiter="/")}
        for artifact in wanted:
            name = artifact.name
            record = manifest.record(model=artifact.model, artifact=name)
            if name not in sizes:
                found[name] = None
            elif record is not None and record.sha256 == artifact.sha256 and record.size == sizes[name]:
                found[name] = record.sha256
        asked -= found.keys()
    return found | dict(zip(asked, in_parallel(store.sha256, asked), strict=True))
