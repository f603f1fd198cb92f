"""The manifest's record of a model: its artifacts, and the current one on each target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from triton_models.artifact.targets import ANY, ArtifactTarget, content_targets


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRecord:
    """The manifest's record of an artifact.

    Attributes:
        build: The content of its build.json: its sources and its target.
        plans: The TensorRT versions that compiled its plans, from the plans themselves.
        portable: True if one of its TensorRT models has an ONNX file instead of a plan. Such an artifact was
            built without a GPU and runs only with a stand-in for TensorRT, as in a rehearsal.
        inputs: The inputs of its build by topic, such as "packages". Empty if not recorded.
        request: The SHA-256 of the request that warms the model up, stored next to it. Empty without one.
    """

    size: int
    sha256: str
    build: Mapping[str, Any]
    plans: tuple[str, ...] = ()
    portable: bool = False
    inputs: Mapping[str, str] = field(default_factory=dict)
    request: str = ""

    @property
    def targets(self) -> tuple[ArtifactTarget, ...]:
        """The recorded targets that it runs on."""
        return content_targets(self.build, self.plans)

    def runs_on(self, target: ArtifactTarget) -> bool:
        """Return whether it runs on a target, according to its record."""
        return any(each.covers(target) for each in self.targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change of a model's current artifact on a target.

    Attributes:
        target: The target; `ANY` for all targets.
        how: The reason: a publication or a rollback.
        at: The time in UTC, by S3's clock.
        by: The author, as stated by the publisher. CloudTrail has the authenticated one.
    """

    artifact: str
    how: Literal["publish", "rollback"]
    at: datetime
    by: str
    target: ArtifactTarget = ANY


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """An artifact that is to become its model's current one.

    Attributes:
        target: The target on which to make it current; None for all targets it runs on.
    """

    model: str
    artifact: str
    record: ArtifactRecord
    target: ArtifactTarget | None = None

    @property
    def targets(self) -> tuple[ArtifactTarget, ...]:
        """The targets on which it becomes current."""
        return self.record.targets if self.target is None else (self.target,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """The record of a model.

    Attributes:
        history: The changes of the current artifact, newest last.
    """

    current: Mapping[ArtifactTarget, str]
    history: tuple[Change, ...]
    artifacts: Mapping[str, ArtifactRecord]

    def moved_for(self, target: ArtifactTarget) -> ArtifactTarget | None:
        """Return the target whose current artifact applies to an endpoint: its own, or a wider one.

        None if neither has a current artifact.
        """
        covering = [each for each in self.current if each.covers(target)]
        return min(covering, key=lambda each: each.width, default=None)

    def on(self, target: ArtifactTarget | None) -> str | None:
        """Return the current artifact on an endpoint of a target; None if there is none.

        The result of `moved_for` takes precedence. Otherwise it is the newest of the artifacts that are
        current for other targets and run on this one too, such as an ONNX model built only for another
        endpoint. Without a target, it is the artifact that is current everywhere.
        """
        if target is None:
            artifacts = {*self.current.values()}
            return artifacts.pop() if len(artifacts) == 1 else None
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
        """Return the artifacts for `fleet rollback` on a target, the next one last.

        Repeated rollbacks go further back, and never to an artifact that was withdrawn by a rollback.
        """
        stack: list[str] = []
        for change in self.history_of(target):
            if change.how == "rollback" and change.artifact in stack:
                del stack[stack.index(change.artifact) + 1 :]
            else:
                stack = [name for name in stack if name != change.artifact] + [change.artifact]
        return tuple(name for name in stack if name != self.on(target))

    def history_of(self, target: ArtifactTarget) -> tuple[Change, ...]:
        """Return the changes that applied to a target, newest last."""
        return tuple(change for change in self.history if change.target.covers(target))

    def by_publication(self, target: ArtifactTarget | None = None) -> tuple[str, ...]:
        """Return the artifacts in the order of their last publication."""
        changes = self.history if target is None else self.history_of(target)
        order = dict.fromkeys(self.artifacts, -1) if target is None else {}
        for number, change in enumerate(changes):
            if change.how == "publish" and change.artifact in self.artifacts:
                order[change.artifact] = number
        return tuple(sorted(order, key=lambda name: order[name]))

    def left_at(self, artifact: str) -> datetime | None:
        """Return the time until which an artifact was current; None if it still is, or if not recorded."""
        if artifact in self.current.values():
            return None
        standing: dict[ArtifactTarget, str] = {}
        left = None
        for change in self.history:
            before, standing = standing, _moved(standing, change)
            if artifact in before.values() and artifact not in standing.values():
                left = change.at
        return left

    def has(self, wanted: Publication) -> bool:
        """Return whether an artifact is recorded as it is, and current for its targets."""
        current = all(self.current.get(target) == wanted.artifact for target in wanted.targets)
        return current and self.artifacts.get(wanted.artifact) == wanted.record

    def with_published(self, wanted: Publication, *, at: datetime, by: str) -> ModelRecord:
        """Return a record in which an artifact is current for its targets; itself if nothing changes.

        It also replaces the current ones of narrower targets, because the newest publication counts.
        """
        change = Change(artifact=wanted.artifact, how="publish", at=at, by=by)
        changes = [replace(change, target=target) for target in wanted.targets]
        moving = [change for change in changes if _moved(self.current, change) != self.current]
        if not moving and self.artifacts.get(wanted.artifact) == wanted.record:
            return self
        record = replace(self, artifacts={**self.artifacts, wanted.artifact: wanted.record})
        return record.with_changes(moving)

    def with_changes(self, changes: Iterable[Change]) -> ModelRecord:
        """Return a record with changes applied."""
        current, history = self.current, self.history
        for change in changes:
            current, history = _moved(current, change), (*history, change)
        return replace(self, current=current, history=history)

    def without(self, artifacts: set[str]) -> ModelRecord:
        """Return a record without some artifacts, and without the targets on which they were current."""
        return ModelRecord(
            current={target: name for target, name in self.current.items() if name not in artifacts},
            history=tuple(change for change in self.history if change.artifact not in artifacts),
            artifacts={name: each for name, each in self.artifacts.items() if name not in artifacts},
        )


NEW = ModelRecord(current={}, history=(), artifacts={})
"""The record of a model before its first publication."""


def _moved(current: Mapping[ArtifactTarget, str], change: Change) -> dict[ArtifactTarget, str]:
    """Return the current artifacts after a change. A rollback does not affect narrower targets."""
    kept = {
        target: name
        for target, name in current.items()
        if change.how == "rollback" or target == change.target or not change.target.covers(target)
    }
    return {**kept, change.target: change.artifact}
