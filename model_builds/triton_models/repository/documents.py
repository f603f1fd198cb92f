"""Requests that warm models up: small objects next to the artifacts, named after their SHA-256."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from triton_models.repository.manifest import Repository
from triton_models.repository.s3 import LOST_RACE, error_code

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

REQUESTS = "requests"
"""Their folder in a repository."""


def request_name(sha256: str) -> str:
    """Return the name in the repository of the request with that digest."""
    return f"{REQUESTS}/{sha256}.json"


def store_request(document: bytes, repository: Repository, s3: S3Client) -> None:
    """Upload a request to the repository, unless it exists.

    Raises:
        botocore.exceptions.ClientError: S3 refuses.
    """
    from botocore.exceptions import ClientError

    digest = hashlib.sha256(document)
    try:
        s3.put_object(
            Bucket=repository.bucket,
            Key=repository.key(request_name(digest.hexdigest())),
            Body=document,
            ContentType="application/json",
            ChecksumAlgorithm="SHA256",
            ChecksumSHA256=base64.b64encode(digest.digest()).decode(),
            IfNoneMatch="*",
        )
    except ClientError as error:
        if error_code(error) not in LOST_RACE:
            raise
