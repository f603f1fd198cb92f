"""`fleet history`: the publications of each model with target, time and author."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from triton_models.artifact.evidence import Evidence
from triton_models.artifact.layout import digest_of_artifact
from triton_models.artifact.targets import ArtifactTarget, built_gpu
from triton_models.base import options as opt
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.base.outcome import JsonReady
from triton_models.base.tables import Column, table
from triton_models.repository.manifest import (
    PARTS,
    ArtifactRecord,
    Change,
    Manifest,
    ModelRecord,
    in_json,
    request_name,
)
from triton_models.repository.objects import Store, opened
from triton_models.repository.s3 import S3Client, in_parallel
from triton_models.repository.stored_manifest import read

_DAY = len("2026-11-23")  # the beginning of a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifacts(JsonReady):
    """The outcome of `fleet history`: the artifacts of each model, newest first.

    Attributes:
        verified: The number of objects that match the manifest; None without verification.
    """

    repository: str
    artifacts: tuple[PublishedArtifact, ...]
    verified: int | None = None

    def lines(self) -> Iterator[str]:
        """Yield the lines of a table."""
        if not self.artifacts:
            yield f"no models are published in {self.repository}"
            return
        yield from table(self._columns())
        if self.verified is not None:
            yield f"{self.verified} objects match the manifest"

    def _columns(self) -> list[Column]:
        """Return the columns; a digest names an artifact as well as its file name does, also to rollback."""
        rows = self.artifacts
        published = [in_json(row.change.at) if row.change else "?" for row in rows]
        return [
            Column(title="model", cells=[row.model for row in rows]),
            Column(
                title="artifact",
                cells=[row.artifact for row in rows],
                short=[digest_of_artifact(row.artifact) for row in rows],
            ),
            Column(title="state", cells=[row.state for row in rows]),
            Column(title="precision", cells=[row.record.evidence.precision for row in rows], rank=1),
            Column(title="on", cells=[", ".join(map(str, row.targets)) for row in rows], rank=1),
            Column(title="MB", cells=[f"{row.record.size / 1e6:,.1f}" for row in rows], right=True, rank=2),
            Column(title="built for", cells=[built_for(row.record) for row in rows], rank=4),
            Column(
                title="answers",
                cells=[_answers(row.record.evidence) for row in rows],
                short=[row.record.evidence.status for row in rows],
                rank=4,
            ),
            Column(title="published", cells=published, short=[each[:_DAY] for each in published], rank=1),
            Column(title="by", cells=[row.change.by if row.change else "?" for row in rows], rank=3),
            Column(title="run", cells=[row.change.run if row.change else "?" for row in rows], rank=3),
        ]


@dataclass(frozen=True, kw_only=True)
class HistoryOptions(opt.RepositoryOptions):
    """Options of `fleet history`."""

    names: Sequence[opt.Name] = opt.argument("only these models", nargs="*")
    verify: bool = opt.flag("read every artifact and compare its SHA-256")


def run(options: HistoryOptions, *, s3: S3Client | None = None) -> Artifacts:
    """Run `fleet history [NAME...] [--verify]`."""
    with opened(options.repository, s3) as store:
        rows = tuple(published(read(store).manifest, options.names))
        verified = verify(rows, store) if options.verify else None
    return Artifacts(repository=store.url, artifacts=rows, verified=verified)


def verify(rows: Sequence[PublishedArtifact], store: Store) -> int:
    """Read each artifact and its request, and compare the digests with the manifest's.

    The manifest alone gives no protection against someone who can write it as well. Its reader therefore
    refuses a digest that does not begin with the digits in the artifact's name, which clients and templates
    contain.

    Returns:
        The number of objects.

    Raises:
        FleetError: Objects are missing or differ; all are listed.
        botocore.exceptions.ClientError: S3 refuses.
    """
    recorded = {row.artifact: row.record.sha256 for row in rows}
    recorded |= {request_name(row.record.request): row.record.request for row in rows if row.record.request}
    found = in_parallel(store.digest, recorded)
    raise_if_any(
        store.not_as_recorded(name, sha256=recorded[name], found=sha256)
        for name, sha256 in zip(recorded, found, strict=True)
        if sha256 != recorded[name]
    )
    return len(recorded)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedArtifact:
    """A published artifact of a model.

    Attributes:
        state: "current"; "previous" for the one `fleet rollback` restores on a target; "candidate" with its
            share; otherwise "".
        targets: The targets on which it is current.
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
            "precision": self.record.evidence.precision,
            "proof": self.record.evidence.status,
            "answers": self.record.evidence.words(),
            "build": dict(self.record.build),
            "plans": list(self.record.plans),
            "request": self.record.request,
            "published": in_json(self.change.at) if self.change else None,
            "by": self.change.by if self.change else None,
            "run": self.change.run if self.change else None,
        }


def published(manifest: Manifest, models: Sequence[str] = ()) -> list[PublishedArtifact]:
    """Return the artifacts of some models, or of all, newest first."""
    problems: list[Problem] = []
    rows: list[PublishedArtifact] = []
    for name in dict.fromkeys(models) or manifest.names:
        try:
            rows.extend(_of(name, manifest.model(name)))
        except FleetError as error:
            problems.extend(error.problems)
    raise_if_any(problems)
    return rows


def built_for(record: ArtifactRecord) -> str:
    """Return a short description of an artifact's target."""
    build, tensorrt = record.build, ", ".join(record.plans) or record.build.get("tensorrt")
    if record.portable:
        return "rehearsals only (portable)"
    parts = [
        built_gpu(build),
        f"release {build['release']}" if build.get("release") else None,
        f"TensorRT {tensorrt}" if tensorrt else None,
    ]
    return ", ".join(str(part) for part in parts if part) or "not recorded"


def _answers(evidence: Evidence) -> str:
    return "unknown" if evidence.status == "unknown" else evidence.words()


def _of(name: str, model: ModelRecord) -> Iterator[PublishedArtifact]:
    candidate = model.candidate
    steps = [each for each in model.rollouts if each.how == "share"]
    changes = {
        each.artifact: Change(artifact=each.artifact, how="publish", at=each.at, by=each.by) for each in steps
    }
    changes |= {change.artifact: change for change in model.history if change.how == "publish"}
    previous = {name for target in model.current for name in model.earlier(target)[-1:]}
    for artifact in reversed(model.by_publication()):
        targets = tuple(target for target, name in model.current.items() if name == artifact)
        state = "current" if targets else "previous" if artifact in previous else ""
        if candidate is not None and candidate.artifact == artifact:
            state = f"candidate, {candidate.share / PARTS:.0%}"
        yield PublishedArtifact(
            model=name,
            artifact=artifact,
            state=state,
            record=model.artifacts[artifact],
            change=changes.get(artifact),
            targets=targets,
        )
