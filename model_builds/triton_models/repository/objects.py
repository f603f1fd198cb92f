"""A repository in S3: its objects are written once, and read with the digest of the bytes that arrived."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, TypeVar

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import Problem
from triton_models.repository.manifest import REPOSITORY_URL, Repository, request_name
from triton_models.repository.s3 import (
    LOST_RACE,
    REPOSITORY_VARIABLE,
    S3Client,
    absent_is_none,
    aws_errors,
    error_code,
    repository_client,
)

_T = TypeVar("_T")

ARTIFACT_CHANGED = Check(id="artifact-changed", source=FROM_ARGUMENTS)
ARTIFACT_GONE = Check(id="artifact-gone", source=FROM_ARGUMENTS)

SHA256 = "sha256"
"""The metadata with an artifact's digest: it needs no permission for the KMS key, and comes with one HEAD."""

_CHUNK_BYTES = 1 << 20
# The SDK retries requests, but not an interrupted read of the response.
_READS = 3


@dataclass(frozen=True, slots=True)
class Store:
    """A repository with a client that reaches it, safe for threads."""

    repository: Repository
    s3: S3Client

    @property
    def url(self) -> str:
        """The repository's URL, which ends with a slash."""
        return self.repository.url

    def at(self, name: str) -> Any:
        """Return the arguments that name an object in a request."""
        return {"Bucket": self.repository.bucket, "Key": self.repository.key(name)}

    def list_objects(self, prefix: str = "", **more: str) -> Iterator[tuple[str, Any]]:
        """Yield the objects below a prefix, by their names in the repository."""
        root, pages = self.repository.prefix, self.s3.get_paginator("list_objects_v2")
        where: Any = {"Bucket": self.repository.bucket, "Prefix": root + prefix, **more}
        for page in pages.paginate(**where):
            for item in page.get("Contents", ()):
                yield item["Key"].removeprefix(root), item

    def sha256(self, name: str) -> str | None:
        """Return the SHA-256 stored with an object; "" without one, None if the object does not exist."""
        with absent_is_none():
            return self.s3.head_object(**self.at(name))["Metadata"].get(SHA256, "")
        return None

    def digest(self, name: str, *, into: IO[bytes] | None = None) -> str | None:
        """Read an object, and return the SHA-256 of its bytes; None if it does not exist."""

        def digested(body: Any) -> str:
            digest = hashlib.sha256()
            if into is not None:
                into.seek(0)
                into.truncate()
            for chunk in body.iter_chunks(_CHUNK_BYTES):
                digest.update(chunk)
                if into is not None:
                    into.write(chunk)
            return digest.hexdigest()

        with absent_is_none():
            return self.read(name, digested)[1]
        return None

    def read(self, name: str, take: Callable[[Any], _T], **unless: Any) -> tuple[Any, _T]:
        """Return the response for an object, and the result of a function that reads its entire body."""
        import botocore.exceptions as aws

        for left in reversed(range(_READS)):
            answer = self.s3.get_object(**self.at(name), **unless)
            try:
                return answer, take(answer["Body"])
            except (aws.HTTPClientError, aws.IncompleteReadError, aws.FlexibleChecksumError):
                if not left:
                    raise
        raise AssertionError  # the last read returns or raises

    def get_request(self, sha256: str) -> bytes:
        """Return a request that warms a model up."""
        content: bytes = self.read(request_name(sha256), lambda body: body.read())[1]
        return content

    def put_request(self, document: bytes) -> None:
        """Upload a request that warms a model up, unless it exists."""
        from botocore.exceptions import ClientError

        digest = hashlib.sha256(document)
        try:
            self.s3.put_object(
                **self.at(request_name(digest.hexdigest())),
                Body=document,
                ContentType="application/json",
                ChecksumAlgorithm="SHA256",
                ChecksumSHA256=base64.b64encode(digest.digest()).decode(),
                IfNoneMatch="*",
            )
        except ClientError as error:
            if error_code(error) not in LOST_RACE:
                raise

    def not_as_recorded(self, name: str, *, sha256: str, found: str | None) -> Problem:
        """Return the problem of an object that is missing, or has other content than the manifest records."""
        where, why = f"{self.url}{name}", "it is not what was checked, tested and published"
        fix = (
            "find out in CloudTrail who changed it, and restore its earlier version: the bucket is versioned"
        )
        if found is None:
            return ARTIFACT_GONE.problem(what="the object is missing", where=where, why=why, fix=fix)
        what = f"the object has other content: SHA-256 {found}, not {sha256}"
        return ARTIFACT_CHANGED.problem(what=what, where=where, why=why, fix=fix)


@contextmanager
def opened(url: str | None, s3: S3Client | None = None, **account: str | None) -> Iterator[Store]:
    """Yield the repository of a URL with a client; errors of AWS meanwhile are about this repository.

    `account` has the `profile` and the `region` of a client that is created, if none is given.
    """
    if not url:
        raise REPOSITORY_URL.error(
            what="the model repository is missing",
            where="the command line",
            fix=f"give --repository, or set {REPOSITORY_VARIABLE}: the RepositoryUrl output of the models "
            "stack",
        )
    repository = Repository.parse(url)
    with aws_errors(repository.url):
        yield Store(repository, s3 if s3 is not None else repository_client(**account))
