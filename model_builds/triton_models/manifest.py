"""The repository's list: which artifact each model's name stands for now, and which ones before.

A manifest is one JSON document with one line for each model. 5,000 models with two artifacts each are 7 MB,
read in a tenth of a second; `fleet prune` keeps it from growing with every publication.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal

from triton_models.errors import FleetError
from triton_models.suggest import did_you_mean

MANIFEST_NAME = "manifest.json"
VERSION = 1

# https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html, read 2026-11-21
_URL = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(?P<prefix>.*))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A model repository: the S3 prefix behind an endpoint.

    Attributes:
        bucket: The bucket's name.
        prefix: "" or a prefix that ends with a slash.
    """

    bucket: str
    prefix: str

    @classmethod
    def parse(cls, url: str) -> Repository:
        """The repository of a URL such as s3://bucket/models/.

        Raises:
            FleetError: It is not such a URL.
        """
        match = _URL.fullmatch(url)
        prefix = (match["prefix"] or "").rstrip("/") if match else ""
        if match is None or prefix.startswith("/") or "//" in prefix:
            raise FleetError.of(
                what=f"{url!r} is not the URL of a model repository",
                where="the repository",
                expected="s3://bucket/prefix/",
                fix="give the RepositoryUrl that the models stack puts out",
                rule="repository-url",
            )
        return cls(bucket=match["bucket"], prefix=f"{prefix}/" if prefix else "")

    @property
    def url(self) -> str:
        """The repository's URL, which ends with a slash."""
        return f"s3://{self.bucket}/{self.prefix}"

    @property
    def manifest_url(self) -> str:
        """The URL of its manifest."""
        return f"{self.url}{MANIFEST_NAME}"

    def key(self, name: str) -> str:
        """The key of an object in the repository."""
        return f"{self.prefix}{name}"


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
        inputs: What its build depended on, by topic: see `triton_models.inputs`. Empty if nobody noted it.
    """

    size: int
    sha256: str
    build: Mapping[str, Any]
    plans: tuple[str, ...] = ()
    portable: bool = False
    inputs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A moment at which a model's name began to stand for an artifact.

    Attributes:
        artifact: The artifact.
        how: It was published, or rolled back to.
        at: When, in UTC, by S3's clock.
        by: Who, as the publisher said. CloudTrail knows who it was.
    """

    artifact: str
    how: Literal["publish", "rollback"]
    at: datetime
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """An artifact to make its model's current one."""

    model: str
    artifact: str
    record: ArtifactRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """One model.

    Attributes:
        current: The artifact its name stands for.
        history: What it stood for, newest last.
        artifacts: The artifacts by their file names.
    """

    current: str
    history: tuple[Change, ...]
    artifacts: Mapping[str, ArtifactRecord]

    def earlier(self) -> tuple[str, ...]:
        """The artifacts that `fleet rollback` goes back to, the next one last.

        A publication comes on top of what was current; a rollback takes away what it leaves behind. So one
        rollback after another goes further back, and never to an artifact that was rolled back from.
        """
        stack: list[str] = []
        for change in self.history:
            if change.how == "rollback" and change.artifact in stack:
                del stack[stack.index(change.artifact) + 1 :]
            else:
                stack = [name for name in stack if name != change.artifact] + [change.artifact]
        return tuple(name for name in stack if name != self.current)

    def by_publication(self) -> tuple[str, ...]:
        """The artifacts in the order in which they were last published."""
        order = dict.fromkeys(self.artifacts, -1)
        for number, change in enumerate(self.history):
            if change.how == "publish" and change.artifact in order:
                order[change.artifact] = number
        return tuple(sorted(order, key=lambda name: order[name]))

    def left_at(self, artifact: str) -> datetime | None:
        """When the name last ceased to stand for an artifact; None if it still does, or nobody noted it."""
        left = None
        for before, after in zip(self.history, self.history[1:], strict=False):
            if before.artifact == artifact and after.artifact != artifact:
                left = after.at
        return left if artifact != self.current else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The repository's models.

    Attributes:
        models: Model name -> its record.
        deleting: The artifacts that a `fleet prune` is about to delete, with the id of that run. None of them
            is a model's any more.
        where: Where it was read from, for errors.
    """

    models: Mapping[str, ModelRecord] = field(default_factory=lambda: MappingProxyType({}))
    deleting: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    where: str = MANIFEST_NAME

    @classmethod
    def from_json(cls, text: str | bytes, *, where: str = MANIFEST_NAME) -> Manifest:
        """The manifest in a JSON document.

        Raises:
            FleetError: It is not a manifest, or one of another version.
        """
        try:
            document = json.loads(text)
            version = document["version"]
            if version == VERSION:
                return cls(
                    models={name: _model_record(model) for name, model in document["models"].items()},
                    deleting=dict(document.get("deleting", {})),
                    where=where,
                )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FleetError.of(
                what=f"not a manifest: {type(error).__name__} {error}",
                where=where,
                expected="the JSON document that `fleet publish` writes",
                why="without it the names of the repository's models are unknown",
                fix="restore an earlier version of the object; the bucket is versioned",
                rule="manifest",
            ) from None
        raise FleetError.of(
            what=f"a manifest of version {version!r}",
            where=where,
            expected=f"version {VERSION}",
            why="this Triton Fleet would lose what it does not understand",
            fix="use the version of Triton Fleet that wrote it",
            rule="manifest",
        )

    def to_json(self) -> str:
        """The manifest as a JSON document: the same manifest always gives the same text."""
        models = ",\n".join(
            f"{json.dumps(name)}: {json.dumps(_model_document(model), sort_keys=True)}"
            for name, model in sorted(self.models.items())
        )
        deleting = json.dumps(dict(self.deleting), sort_keys=True)
        return f'{{"version": {VERSION}, "deleting": {deleting}, "models": {{\n{models}\n}}}}\n'

    def target_model(self, name: str) -> str:
        """The target model, an artifact's file name, that a model's name stands for.

        Raises:
            FleetError: No model has that name.
        """
        return self.model(name).current

    def model(self, name: str) -> ModelRecord:
        """A model's record.

        Raises:
            FleetError: No model has that name.
        """
        if name in self.models:
            return self.models[name]
        raise FleetError.of(
            what=f"there is no model {name!r}",
            where=self.where,
            expected=f"a published model: {_some(self.models)}",
            fix=did_you_mean(name, self.models, otherwise="publish it with `fleet publish`"),
            rule="unknown-model",
        )

    def record(self, *, model: str, artifact: str) -> ArtifactRecord | None:
        """What is kept about an artifact of a model; None if it was never published, or is gone."""
        known = self.models.get(model)
        return known.artifacts.get(artifact) if known is not None else None

    def with_published(self, wanted: Iterable[Publication], *, at: datetime, by: str) -> Manifest:
        """This manifest with each artifact made its model's current one; itself if all of them are."""
        models = dict(self.models)
        for each in wanted:
            models[each.model] = _with_current(models.get(each.model), each, at=at, by=by)
        unchanged = all(models[name] is self.models.get(name) for name in models)
        return self if unchanged else replace(self, models=models)

    def with_rollback(self, *, model: str, to: str, at: datetime, by: str) -> Manifest:
        """This manifest with an artifact that the model had before made current again."""
        old = self.models[model]
        change = Change(artifact=to, how="rollback", at=at, by=by)
        new = replace(old, current=to, history=(*old.history, change))
        return replace(self, models={**self.models, model: new})

    def without(self, artifacts: Iterable[str], *, run: str) -> Manifest:
        """This manifest as it is while a run deletes artifacts: they are no model's, and listed as such."""
        gone = set(artifacts)
        models = {
            name: _without(record, gone) if gone & record.artifacts.keys() else record
            for name, record in self.models.items()
        }
        return replace(self, models=models, deleting={**self.deleting, **dict.fromkeys(gone, run)})

    def with_deleted(self, artifacts: Iterable[str]) -> Manifest:
        """This manifest once the deletion of artifacts is over."""
        over = set(artifacts)
        left = {name: run for name, run in self.deleting.items() if name not in over}
        return replace(self, deleting=left)


def _with_current(old: ModelRecord | None, wanted: Publication, *, at: datetime, by: str) -> ModelRecord:
    known = old.artifacts if old is not None else {}
    if old is not None and old.current == wanted.artifact and known.get(wanted.artifact) == wanted.record:
        return old
    history = old.history if old is not None else ()
    if not history or history[-1].artifact != wanted.artifact:
        history = (*history, Change(artifact=wanted.artifact, how="publish", at=at, by=by))
    return ModelRecord(
        current=wanted.artifact, history=history, artifacts={**known, wanted.artifact: wanted.record}
    )


def in_json(moment: datetime) -> str:
    """A moment in UTC, such as "2026-11-21T13:20:05Z"."""
    return moment.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def _parsed(moment: str) -> datetime:
    # fromisoformat is a tenth of strptime's time, and reads a "Z" only from Python 3.11 on.
    return datetime.fromisoformat(moment.removesuffix("Z") + "+00:00")


def _without(record: ModelRecord, gone: set[str]) -> ModelRecord:
    return replace(
        record,
        history=tuple(change for change in record.history if change.artifact not in gone),
        artifacts={name: each for name, each in record.artifacts.items() if name not in gone},
    )


def _some(names: Iterable[str], *, at_most: int = 20) -> str:
    """Names for an error: thousands would hide it."""
    ordered = sorted(names)
    shown = ", ".join(ordered[:at_most]) or "none yet"
    return f"{shown} and {len(ordered) - at_most} more" if len(ordered) > at_most else shown


def _model_document(model: ModelRecord) -> dict[str, Any]:
    return {
        "current": model.current,
        "history": [
            {
                "artifact": change.artifact,
                "how": change.how,
                "at": in_json(change.at),
                "by": change.by,
            }
            for change in model.history
        ],
        "artifacts": {
            name: {
                "size": each.size,
                "sha256": each.sha256,
                "build": dict(each.build),
                "plans": each.plans,
                "portable": each.portable,
                **({"inputs": dict(each.inputs)} if each.inputs else {}),
            }
            for name, each in model.artifacts.items()
        },
    }


def _model_record(document: dict[str, Any]) -> ModelRecord:
    return ModelRecord(
        current=document["current"],
        history=tuple(
            Change(
                artifact=change["artifact"],
                how=change["how"],
                at=_parsed(change["at"]),
                by=change["by"],
            )
            for change in document["history"]
        ),
        artifacts={
            name: ArtifactRecord(
                size=each["size"],
                sha256=each["sha256"],
                build=each["build"],
                plans=tuple(each["plans"]),
                portable=each["portable"],
                inputs=each.get("inputs", {}),
            )
            for name, each in document["artifacts"].items()
        },
    )
