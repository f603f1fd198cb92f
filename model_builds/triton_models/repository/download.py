"""Objects of a repository as they are in S3, with the digest of the bytes that arrived."""

from __future__ import annotations

import hashlib
from typing import IO, TYPE_CHECKING

from triton_models.base.errors import Problem
from triton_models.repository.manifest import Repository
from triton_models.repository.s3 import NOT_FOUND, error_code

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_CHUNK_BYTES = 1 << 20
# The SDK retries requests, but not an interrupted read of the response.
_READS = 3


def not_as_recorded(name: str, repository: Repository, *, sha256: str, found: str | None) -> Problem:
    """Return the problem of an object that is missing, or has other content than the manifest records."""
    gone, other = "the object is missing", f"the object has other content: SHA-256 {found}, not {sha256}"
    return Problem(
        what=gone if found is None else other,
        where=f"{repository.url}{name}",
        why="it is not what was checked, tested and published",
        fix="find out in CloudTrail who changed it, and restore its earlier version: the bucket is versioned",
        rule="artifact-gone" if found is None else "artifact-changed",
    )


def read_digest(
    name: str, repository: Repository, s3: S3Client, *, into: IO[bytes] | None = None
) -> str | None:
    """Read an object, and return the SHA-256 of its bytes; None if it does not exist.

    Raises:
        botocore.exceptions.ClientError: S3 refuses.
        OSError: The file cannot be written.
    """
    import botocore.exceptions as aws

    for left in reversed(range(_READS)):
        digest = hashlib.sha256()
        try:
            answer = s3.get_object(Bucket=repository.bucket, Key=repository.key(name))
            if into is not None:
                into.seek(0)
                into.truncate()
            for chunk in answer["Body"].iter_chunks(_CHUNK_BYTES):
                digest.update(chunk)
                if into is not None:
                    into.write(chunk)
        except aws.ClientError as error:
            if error_code(error) in NOT_FOUND:
                return None
            raise
        except (aws.HTTPClientError, aws.IncompleteReadError, aws.FlexibleChecksumError):
            if not left:
                raise
        else:
            return digest.hexdigest()
    raise AssertionError  # the last read returns or raises
