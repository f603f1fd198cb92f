"""`fleet history`: the publications of each model with target, time and author."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from triton_models.repository.manifest import Repository
from triton_models.repository.published import PublishedArtifact, published
from triton_models.repository.s3 import aws_errors, repository_client, wanted_repository
from triton_models.repository.stored_manifest import read
from triton_models.repository.verified import verify

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifacts:
    """The outcome of `fleet history`: the artifacts of each model, newest first.

    Attributes:
        repository: Its URL.
        rows: The artifacts.
        verified: The number of objects that match the manifest; None without verification.
    """

    repository: str
    rows: tuple[PublishedArtifact, ...]
    verified: int | None = None
    exit_code: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return every artifact as JSON-ready data."""
        artifacts = [row.as_dict() for row in self.rows]
        return {"repository": self.repository, "artifacts": artifacts, "verified": self.verified}

    def lines(self) -> Iterator[str]:
        """Yield the lines of a table."""
        if not self.rows:
            yield f"no models are published in {self.repository}"
            return
        heads = ("model", "artifact", "state", "on", "MB", "built for", "published", "by")
        yield from _table([heads, *(row.cells() for row in self.rows)], right=heads.index("MB"))
        if self.verified is not None:
            yield f"{self.verified} objects match the manifest"


def run(arguments: argparse.Namespace, *, s3: S3Client | None = None) -> Artifacts:
    """Run `fleet history [NAME...] [--verify]`."""
    where = Repository.parse(wanted_repository(arguments.repository))
    with aws_errors(where.url):
        client = s3 or repository_client()
        rows = tuple(published(read(where, client).manifest, arguments.names))
        verified = verify(rows, where, client) if arguments.verify else None
    return Artifacts(repository=where.url, rows=rows, verified=verified)


def _table(rows: Sequence[Sequence[str]], *, right: int) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(_padded(row, widths, right)).rstrip()


def _padded(row: Iterable[str], widths: Sequence[int], right: int) -> Iterator[str]:
    for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
        yield cell.rjust(width) if number == right else cell.ljust(width)
