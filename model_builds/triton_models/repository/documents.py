"""Documents next to the artifacts: small objects that are named after their SHA-256."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from triton_models.repository.manifest import Repository
from triton_models.repository.s3 import LOST_RACE, error_code

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of documents.

    Attributes:
        folder: Their folder in a repository.
        suffix: The end of their names.
        content_type: Their content type.
    """

    folder: str
    suffix: str
    content_type: str

    def name(self, sha256: str) -> str:
        """Return the name in the repository of the document with that digest."""
        return f"{self.folder}/{sha256}{self.suffix}"


SBOM = Kind(folder="sbom", suffix=".cdx.json", content_type="application/vnd.cyclonedx+json")
"""Bills of materials of build environments. Builds in equal environments share one."""

REQUEST = Kind(folder="requests", suffix=".json", content_type="application/json")
"""Requests that warm models up."""


def store(document: bytes, kind: Kind, repository: Repository, s3: S3Client) -> str:
    """Upload a document to the repository, unless it exists.

    Returns:
        Its SHA-256, in hexadecimal.

    Raises:
        botocore.exceptions.ClientError: S3 refuses.
    """
    from botocore.exceptions import ClientError

    digest = hashlib.sha256(document)
    try:
        s3.put_object(
            Bucket=repository.bucket,
            Key=repository.key(kind.name(digest.hexdigest())),
            Body=document,
            ContentType=kind.content_type,
            ChecksumAlgorithm="SHA256",
            ChecksumSHA256=base64.b64encode(digest.digest()).decode(),
            IfNoneMatch="*",
        )
    except ClientError as error:
        if error_code(error) not in LOST_RACE:
            raise
    return digest.hexdigest()
