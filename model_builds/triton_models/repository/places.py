"""Documents addressed by a path or an S3 URL."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.files import write_whole
from triton_models.repository.s3 import S3Client, absent_is_none, aws_errors, in_parallel, repository_client

NO_RESULTS = Check(id="no-results", source=FROM_ARGUMENTS)
UNWRITABLE = Check(id="unwritable", source=FROM_ARGUMENTS)

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
        """Write a document atomically."""
        self.put(text.encode(), ContentType="application/json")

    def put(self, content: bytes, **about: str) -> None:
        """Write bytes atomically; `about` has further arguments for S3."""
        with _located(self.address):
            if self.in_s3:
                self._client().put_object(**self._at(), Body=content, **about)
            else:
                write_whole(Path(self.address), content)

    def read(self) -> bytes:
        """Read the document."""
        with _located(self.address):
            return _get(self._client(), self._at()) if self.in_s3 else Path(self.address).read_bytes()

    def find(self) -> bytes | None:
        """Read the document; None if it does not exist."""
        with _located(self.address), absent_is_none(), contextlib.suppress(FileNotFoundError):
            return _get(self._client(), self._at()) if self.in_s3 else Path(self.address).read_bytes()
        return None

    def documents(self) -> dict[str, bytes]:
        """Read every .json below the place, by address and sorted; for a document, read it alone."""
        if self.address.endswith(".json"):
            return {self.address: self.read()}
        with _located(self.address):
            found = self._below_in_s3() if self.in_s3 else self._below()
        if found:
            return found
        raise NO_RESULTS.error(
            what="no document is there",
            where=self.address,
            fix="pass the address given to --results, without the file name",
        )

    def _below(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(Path(self.address).rglob("*.json"))}

    def _below_in_s3(self) -> dict[str, bytes]:
        s3, (bucket, prefix) = self._client(), self._at().values()
        pages = s3.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=f"{prefix.rstrip('/')}/" if prefix else ""
        )
        keys = sorted(each["Key"] for page in pages for each in page.get("Contents", ()))
        keys = [key for key in keys if key.endswith(".json")]
        bodies = in_parallel(lambda key: _get(s3, {"Bucket": bucket, "Key": key}), keys)
        return {f"{_S3}{bucket}/{key}": body for key, body in zip(keys, bodies, strict=True)}

    def _at(self) -> dict[str, str]:
        bucket, _, key = self.address.removeprefix(_S3).partition("/")
        return {"Bucket": bucket, "Key": key}

    def _client(self) -> Any:
        return self.s3 if self.s3 is not None else repository_client()


def _get(s3: Any, at: dict[str, str]) -> bytes:
    document: bytes = s3.get_object(**at)["Body"].read()
    return document


@contextlib.contextmanager
def _located(address: str) -> Iterator[None]:
    """Report errors of reading or writing with the document's address."""
    try:
        with aws_errors(address) if address.startswith(_S3) else contextlib.nullcontext():
            yield
    except OSError as error:
        fix = "choose another path, or s3://bucket/key"
        raise UNWRITABLE.error(what=f"{error.strerror or error}", where=address, fix=fix) from None
