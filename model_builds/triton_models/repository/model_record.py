"""What the manifest keeps about one model: its artifacts, and which is current on each target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal

from triton_models.artifact.targets import ANY, ArtifactTarget, content_targets


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRecord:
    """What the manifest keeps about an artifact.

    Attributes:
        size: In bytes.
        sha256: Hexadecimal.
        build: What it was built from and for: its build.json.
        plans: The TensorRT versions that compiled the plans in it, as the plans themselves say.
        portable: A TensorRT model in it has an ONNX file in the place of its plan: it was built without a
            GPU and runs only where something stands in for TensorRT, as in a rehearsal.
        inputs: What its build depended on, by topic, such as "packages". Empty if not recorded.
        sbom: The SHA-256 of the bill of materials of its build's environment: see
            `triton_models.repository.sbom`. Empty if not recorded.
    """

    size: int
    sha256: str
    build: Mapping[str, Any]
    plans: tuple[str, ...] = ()
    portable: bool = False
    inputs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    sbom: str = ""

    @property
    def targets(self) -> tuple[ArtifactTarget, ...]:
        """The targets that it runs on, as far as that is recorded."""
        return content_targets(self.build, self.plans)

    def runs_on(self, target: ArtifactTarget) -> bool:
        """Whether it runs on a target, as far as that is recorded."""
        return any(each.covers(target) for each in self.targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A moment at which a model's name began to stand for an artifact on a target.

    Attributes:
        target: The target; `ANY` for every one.
        artifact: The artifact.
        how: It was published, or rolled back to.
        at: When, in UTC, by S3's clock.
        by: Who, as the publisher said. CloudTrail knows who it was.
    """

    artifact: str
    how: Literal["publish", "rollback"]
    at: datetime
    by: str
    target: ArtifactTarget = ANY


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """An artifact to make its model's current one.

    Attributes:
        model: The model's name.
        artifact: The artifact's file name.
        record: What to keep about it.
        target: The target on which the name moves; None for all that the artifact's content runs on.
    """

    model: str
    artifact: str
    record: ArtifactRecord
    target: ArtifactTarget | None = None

    @property
    def targets(self) -> tuple[ArtifactTarget, ...]:
        """The targets on which the name moves."""
        return self.record.targets if self.target is None else (self.target,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """One model.

    Attributes:
        current: The artifact that its name stands for, by each target that it was moved for.
        history: What it stood for, newest last.
        artifacts: The artifacts by their file names.
    """

    current: Mapping[ArtifactTarget, str]
    history: tuple[Change, ...]
    artifacts: Mapping[str, ArtifactRecord]

    def moved_for(self, target: ArtifactTarget) -> ArtifactTarget | None:
        """The target whose current artifact counts on an endpoint: its own, or a wider one that covers it.

        None if the name was moved for neither.
        """
        covering = [each for each in self.current if each.covers(target)]
        return min(covering, key=lambda each: each.width, default=None)

    def on(self, target: ArtifactTarget) -> str | None:
        """The artifact that the name stands for on an endpoint of a target; None without one.

        First comes what `moved_for` finds. Otherwise, of what is current for other targets and runs on this
        one as well, it is the one that was moved to last: an ONNX model, say, that has been built for another
        endpoint only.
        """
        moved = self.moved_for(target)
        if moved is not None:
            return self.current[moved]
        last = {change.target: number for number, change in enumerate(self.history)}
        for each in sorted(self.current, key=lambda each: (-last.get(each, -1), str(each))):
            record = self.artifacts.get(self.current[each])
            if record is not None and record.runs_on(target):
                return self.current[each]
        return None

    def earlier(self, target: ArtifactTarget = ANY) -> tuple[str, ...]:
        """The artifacts that `fleet rollback` goes back to on a target, the next one last.

        A publication comes on top of what was current; a rollback takes away what it leaves behind. So one
        rollback after another goes further back, and never to an artifact that was rolled back from.
        """
        stack: list[str] = []
        for change in self.history_of(target):
            if change.how == "rollback" and change.artifact in stack:
                del stack[stack.index(change.artifact) + 1 :]
            else:
                stack = [name for name in stack if name != change.artifact] + [change.artifact]
        return tuple(name for name in stack if name != self.on(target))

    def history_of(self, target: ArtifactTarget) -> tuple[Change, ...]:
        """The changes that counted on a target, newest last."""
        return tuple(change for change in self.history if change.target.covers(target))

    def by_publication(self, target: ArtifactTarget | None = None) -> tuple[str, ...]:
        """The artifacts in the order in which they were last published.

        Args:
            target: Only those that were published for it.
        """
        changes = self.history if target is None else self.history_of(target)
        order = dict.fromkeys(self.artifacts, -1)
        for number, change in enumerate(changes):
            if change.how == "publish" and change.artifact in order:
                order[change.artifact] = number
        names = [name for name in order if target is None or order[name] >= 0]
        return tuple(sorted(names, key=lambda name: order[name]))

    def left_at(self, artifact: str) -> datetime | None:
        """When the name last ceased to stand for an artifact; None if it still does, or if not recorded."""
        if artifact in self.current.values():
            return None
        standing: dict[ArtifactTarget, str] = {}
        left = None
        for change in self.history:
            before = artifact in standing.values()
            standing = _moved(standing, change)
            if before and artifact not in standing.values():
                left = change.at
        return left

    def with_published(self, wanted: Publication, *, at: datetime, by: str) -> ModelRecord:
        """This record with an artifact made current for its targets; itself if it is.

        What was current for a narrower target is not any more: the newest publication for a target counts.
        """
        changes = [
            Change(target=target, artifact=wanted.artifact, how="publish", at=at, by=by)
            for target in wanted.targets
        ]
        moving = [change for change in changes if _moved(self.current, change) != self.current]
        if not moving and self.artifacts.get(wanted.artifact) == wanted.record:
            return self
        record = replace(self, artifacts={**self.artifacts, wanted.artifact: wanted.record})
        return record.with_changes(moving)

    def with_changes(self, changes: Iterable[Change]) -> ModelRecord:
        """This record after its name was moved."""
        record = self
        for change in changes:
            record = replace(
                record, current=_moved(record.current, change), history=(*record.history, change)
            )
        return record

    def without(self, artifacts: set[str]) -> ModelRecord:
        """This record without some artifacts; a target that one of them was current for loses its entry."""
        return ModelRecord(
            current={target: name for target, name in self.current.items() if name not in artifacts},
            history=tuple(change for change in self.history if change.artifact not in artifacts),
            artifacts={name: each for name, each in self.artifacts.items() if name not in artifacts},
        )


NEW = ModelRecord(current={}, history=(), artifacts={})
"""A model before its first publication."""


def _moved(current: Mapping[ArtifactTarget, str], change: Change) -> dict[ArtifactTarget, str]:
    """What is current after a change. A rollback for a target says nothing about narrower ones."""
    kept = {
        target: name
        for target, name in current.items()
        if change.how == "rollback" or target == change.target or not change.target.covers(target)
    }
    return {**kept, change.target: change.artifact}
