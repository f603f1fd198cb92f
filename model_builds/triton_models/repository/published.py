"""`fleet history`: list the publications of each model with target, time and author."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from triton_models.artifact.built_for import built_gpus
from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.repository.manifest import (
    ArtifactRecord,
    Change,
    Manifest,
    ModelRecord,
    Repository,
    in_json,
)
from triton_models.repository.s3 import aws_errors, repository_client, wanted_repository
from triton_models.repository.stored_manifest import read
from triton_models.repository.verified import verify

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedArtifact:
    """A published artifact of a model.

    Attributes:
        model: The model's name.
        artifact: Its file name.
        state: "current"; "previous" for the one `fleet rollback` restores on a target; otherwise "".
        targets: The targets on which it is current.
        record: Its size, sources and target.
        change: The time and author of its last publication; None if not recorded.
    """

    model: str
    artifact: str
    state: str
    record: ArtifactRecord
    change: Change | None
    targets: tuple[ArtifactTarget, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the row as JSON-ready data."""
        return {
            "model": self.model,
            "artifact": self.artifact,
            "state": self.state,
            "targets": [str(target) for target in self.targets],
            "size": self.record.size,
            "sha256": self.record.sha256,
            "portable": self.record.portable,
            "build": dict(self.record.build),
            "plans": list(self.record.plans),
            "sbom": self.record.sbom,
            "published": in_json(self.change.at) if self.change else None,
            "by": self.change.by if self.change else None,
        }

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the row."""
        return (
            self.model,
            self.artifact,
            self.state,
            ", ".join(map(str, self.targets)),
            f"{self.record.size / 1e6:,.1f}",
            built_for(self.record),
            in_json(self.change.at) if self.change else "?",
            self.change.by if self.change else "?",
        )


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
        """Yield a table."""
        if not self.rows:
            yield f"no models are published in {self.repository}"
            return
        heads = ("model", "artifact", "state", "on", "MB", "built for", "published", "by")
        yield from _table([heads, *(row.cells() for row in self.rows)], right=heads.index("MB"))
        if self.verified is not None:
            yield f"{self.verified} objects match the manifest"


def published(manifest: Manifest, models: Sequence[str] = ()) -> list[PublishedArtifact]:
    """Return the artifacts of some models, or of all, newest first.

    Raises:
        FleetError: Some models are unknown; all are listed.
    """
    problems: list[Problem] = []
    rows: list[PublishedArtifact] = []
    for name in dict.fromkeys(models) or sorted(manifest.models):
        try:
            rows.extend(_of(name, manifest.model(name)))
        except FleetError as error:
            problems.extend(error.problems)
    raise_if_any(problems)
    return rows


def run(arguments: argparse.Namespace, *, s3: S3Client | None = None) -> Artifacts:
    """Run `fleet history [NAME...] [--verify]`."""
    where = Repository.parse(wanted_repository(arguments.repository))
    with aws_errors(where.url):
        client = s3 or repository_client()
        rows = tuple(published(read(where, client).manifest, arguments.names))
        verified = verify(rows, where, client) if arguments.verify else None
    return Artifacts(repository=where.url, rows=rows, verified=verified)


def built_for(record: ArtifactRecord) -> str:
    """Return a short description of an artifact's target."""
    build, tensorrt = record.build, ", ".join(record.plans) or record.build.get("tensorrt")
    if record.portable:
        return "rehearsals only (portable)"
    parts = [
        " and ".join(built_gpus(build)),
        f"release {build['release']}" if build.get("release") else None,
        f"TensorRT {tensorrt}" if tensorrt else None,
    ]
    return ", ".join(str(part) for part in parts if part) or "not recorded"


def _of(name: str, model: ModelRecord) -> Iterator[PublishedArtifact]:
    changes = {change.artifact: change for change in model.history if change.how == "publish"}
    previous = {name for target in model.current for name in model.earlier(target)[-1:]}
    for artifact in reversed(model.by_publication()):
        targets = tuple(target for target, name in model.current.items() if name == artifact)
        state = "current" if targets else "previous" if artifact in previous else ""
        yield PublishedArtifact(
            model=name,
            artifact=artifact,
            state=state,
            record=model.artifacts[artifact],
            change=changes.get(artifact),
            targets=targets,
        )


def _table(rows: Sequence[Sequence[str]], *, right: int) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(_padded(row, widths, right)).rstrip()


def _padded(row: Iterable[str], widths: Sequence[int], right: int) -> Iterator[str]:
    for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
        yield cell.rjust(width) if number == right else cell.ljust(width)
