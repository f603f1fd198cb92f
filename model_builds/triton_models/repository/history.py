"""`fleet history`: the publications of each model with target, time and author."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from triton_models.artifact.layout import digest_of_artifact
from triton_models.base.tables import Column, table
from triton_models.repository.manifest import Repository, in_json
from triton_models.repository.published import PublishedArtifact, built_for, published
from triton_models.repository.s3 import aws_errors, repository_client, wanted_repository
from triton_models.repository.stored_manifest import read
from triton_models.repository.verified import verify

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_DAY = len("2026-11-23")  # the beginning of a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifacts:
    """The outcome of `fleet history`: the artifacts of each model, newest first.

    Attributes:
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
        yield from table(self._columns())
        if self.verified is not None:
            yield f"{self.verified} objects match the manifest"

    def _columns(self) -> list[Column]:
        """Return the columns; a digest names an artifact as well as its file name does, also to rollback."""
        rows = self.rows
        published = [in_json(row.change.at) if row.change else "?" for row in rows]
        return [
            Column(title="model", cells=[row.model for row in rows]),
            Column(
                title="artifact",
                cells=[row.artifact for row in rows],
                short=[digest_of_artifact(row.artifact) for row in rows],
            ),
            Column(title="state", cells=[row.state for row in rows]),
            Column(title="on", cells=[", ".join(map(str, row.targets)) for row in rows], rank=1),
            Column(title="MB", cells=[f"{row.record.size / 1e6:,.1f}" for row in rows], right=True, rank=2),
            Column(title="built for", cells=[built_for(row.record) for row in rows], rank=4),
            Column(title="published", cells=published, short=[each[:_DAY] for each in published], rank=1),
            Column(title="by", cells=[row.change.by if row.change else "?" for row in rows], rank=3),
        ]


def run(arguments: argparse.Namespace, *, s3: S3Client | None = None) -> Artifacts:
    """Run `fleet history [NAME...] [--verify]`."""
    where = Repository.parse(wanted_repository(arguments.repository))
    with aws_errors(where.url):
        client = s3 or repository_client()
        rows = tuple(published(read(where, client).manifest, arguments.names))
        verified = verify(rows, where, client) if arguments.verify else None
    return Artifacts(repository=where.url, rows=rows, verified=verified)
