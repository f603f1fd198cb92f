"""Documents addressed by a path or an S3 URL."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.base.errors import FleetError
from triton_models.base.whole_files import write_whole
from triton_models.repository.s3 import aws_errors, in_parallel, repository_client

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_S3 = "s3://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of a document or of a folder of documents."""

    address: str
    s3: S3Client | None = None

    @property
    def in_s3(self) -> bool:
        """True if the place is in S3, where each write takes time and costs money."""
        return self.address.startswith(_S3)

    def write(self, text: str) -> None:
        """Write a document atomically.

        Raises:
            FleetError: It cannot be written.
        """
        with _located(self.address):
            if self.in_s3:
                bucket, key = self._parts()
                body = text.encode()
                self._client().put_object(Bucket=bucket, Key=key, Body=body, ContentType="application/json")
                return
            write_whole(Path(self.address), text.encode())

    def read(self) -> bytes:
        """Read the document.

        Raises:
            FleetError: The document is missing or cannot be read.
        """
        with _located(self.address):
            if self.in_s3:
                return _get(self._client(), *self._parts())
            return Path(self.address).read_bytes()

    def documents(self) -> dict[str, bytes]:
        """Read every .json below the place, by address and sorted; for a document, read it alone.

        Raises:
            FleetError: No document is there, or one cannot be read.
        """
        if self.address.endswith(".json"):
            return {self.address: self.read()}
        with _located(self.address):
            found = self._below_in_s3() if self.in_s3 else self._below()
        if found:
            return found
        raise FleetError.of(
            what="no document is there",
            where=self.address,
            fix="pass the address given to --results, without the file name",
            rule="no-results",
        )

    def _below(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(Path(self.address).rglob("*.json"))}

    def _below_in_s3(self) -> dict[str, bytes]:
        bucket, prefix = self._parts()
        s3 = self._client()
        pages = s3.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=f"{prefix.rstrip('/')}/" if prefix else ""
        )
        keys = sorted(each["Key"] for page in pages for each in page.get("Contents", ()))
        keys = [key for key in keys if key.endswith(".json")]
        bodies = in_parallel(partial(_get, s3, bucket), keys)
        return {f"{_S3}{bucket}/{key}": body for key, body in zip(keys, bodies, strict=True)}

    def _parts(self) -> tuple[str, str]:
        bucket, _, key = self.address.removeprefix(_S3).partition("/")
        return bucket, key

    def _client(self) -> Any:
        return self.s3 if self.s3 is not None else repository_client()


def _get(s3: S3Client, bucket: str, key: str) -> bytes:
    return s3.get_object(Bucket=bucket, Key=key)["Body"].read()


@contextlib.contextmanager
def _located(address: str) -> Iterator[None]:
    """Report errors of reading or writing with the document's address."""
    try:
        with aws_errors(address) if address.startswith(_S3) else contextlib.nullcontext():
            yield
    except OSError as error:
        raise FleetError.of(
            what=f"{error.strerror or error}",
            where=address,
            fix="choose another path, or s3://bucket/key",
            rule="unwritable",
        ) from None
