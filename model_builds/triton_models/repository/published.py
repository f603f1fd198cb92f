"""The artifacts of a repository, as its manifest lists them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from triton_models.artifact.built_for import built_gpu
from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.repository.manifest import ArtifactRecord, Change, Manifest, ModelRecord, in_json


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedArtifact:
    """A published artifact of a model.

    Attributes:
        state: "current"; "previous" for the one `fleet rollback` restores on a target; otherwise "".
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
            "build": dict(self.record.build),
            "plans": list(self.record.plans),
            "request": self.record.request,
            "published": in_json(self.change.at) if self.change else None,
            "by": self.change.by if self.change else None,
        }


def published(manifest: Manifest, models: Sequence[str] = ()) -> list[PublishedArtifact]:
    """Return the artifacts of some models, or of all, newest first.

    Raises:
        FleetError: Some models are unknown, or their records are invalid; all are listed.
    """
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
