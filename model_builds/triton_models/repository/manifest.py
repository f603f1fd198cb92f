"""The repository's list: which artifact each model's name stands for on each target, and which before.

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

from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.errors import FleetError
from triton_models.base.suggest import did_you_mean
from triton_models.repository.manifest_document import in_json, model_document, model_record, model_record_1
from triton_models.repository.model_record import NEW, ArtifactRecord, Change, ModelRecord, Publication

__all__ = [
    "MANIFEST_NAME",
    "VERSION",
    "ArtifactRecord",
    "Change",
    "Manifest",
    "ModelRecord",
    "Publication",
    "Repository",
    "in_json",
]

MANIFEST_NAME = "manifest.json"
VERSION = 2
_READERS = MappingProxyType({1: model_record_1, VERSION: model_record})

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
            if version in _READERS:
                read = _READERS[version]
                return cls(
                    models={name: read(model) for name, model in document["models"].items()},
                    deleting=dict(document.get("deleting", {})),
                    where=where,
                )
        except (ValueError, KeyError, TypeError, AttributeError, FleetError) as error:
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
            expected=f"version 1 or {VERSION}",
            why="this Triton Fleet would lose what it does not understand",
            fix="use the version of Triton Fleet that wrote it",
            rule="manifest",
        )

    def to_json(self) -> str:
        """The manifest as a JSON document: the same manifest always gives the same text."""
        models = ",\n".join(
            f"{json.dumps(name)}: {json.dumps(model_document(model), sort_keys=True)}"
            for name, model in sorted(self.models.items())
        )
        deleting = json.dumps(dict(self.deleting), sort_keys=True)
        return f'{{"version": {VERSION}, "deleting": {deleting}, "models": {{\n{models}\n}}}}\n'

    def target_model(self, name: str, target: ArtifactTarget | None = None) -> str:
        """The target model, an artifact's file name, that a model's name stands for.

        Args:
            name: The model's name.
            target: The target of the endpoint that is asked; see `ModelRecord.on`. None if it is not known:
                then the name must stand for one artifact everywhere.

        Raises:
            FleetError: No model has that name, it has no artifact for the target, or several without one.
        """
        model = self.model(name)
        if target is None:
            return self._only(name, model)
        artifact = model.on(target)
        if artifact is not None:
            return artifact
        raise FleetError.of(
            what=f"there is no artifact of {name!r} for {target}",
            where=self.where,
            expected=f"one of its targets: {_some(map(str, model.current))}",
            why="an artifact for another target does not load there",
            fix="build it for that release and GPU, or ask an endpoint that it was built for",
            rule="no-artifact-for-target",
        )

    def knows(self, name: str, target: ArtifactTarget | None) -> bool:
        """Whether `target_model` has an answer."""
        model = self.models.get(name)
        if model is None:
            return False
        if target is None:
            return len(set(model.current.values())) == 1
        return model.on(target) is not None

    def _only(self, name: str, model: ModelRecord) -> str:
        artifacts = dict.fromkeys(model.current.values())
        if len(artifacts) == 1:
            return next(iter(artifacts))
        raise FleetError.of(
            what=f"{name!r} stands for {len(artifacts)} artifacts: of {_some(map(str, model.current))}",
            where=self.where,
            expected="the target of the endpoint that is asked",
            why="which of them loads depends on its release and GPU",
            fix="give the fleet's alias, which names the target, or the target itself",
            rule="ambiguous-target",
        )

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
        """This manifest with each artifact made current for its targets; itself if all of them are."""
        models = dict(self.models)
        for each in wanted:
            models[each.model] = models.get(each.model, NEW).with_published(each, at=at, by=by)
        unchanged = all(models[name] is self.models.get(name) for name in models)
        return self if unchanged else replace(self, models=models)

    def with_rollback(
        self, *, model: str, to: str, at: datetime, by: str, target: ArtifactTarget
    ) -> Manifest:
        """This manifest with an artifact that the model had before made current again for a target."""
        change = Change(target=target, artifact=to, how="rollback", at=at, by=by)
        return replace(self, models={**self.models, model: self.models[model].with_changes([change])})

    def without(self, artifacts: Iterable[str], *, run: str) -> Manifest:
        """This manifest as it is while a run deletes artifacts: they are no model's, and listed as such."""
        gone = set(artifacts)
        models = {
            name: record.without(gone) if gone & record.artifacts.keys() else record
            for name, record in self.models.items()
        }
        return replace(self, models=models, deleting={**self.deleting, **dict.fromkeys(gone, run)})

    def with_deleted(self, artifacts: Iterable[str]) -> Manifest:
        """This manifest once the deletion of artifacts is over."""
        over = set(artifacts)
        left = {name: run for name, run in self.deleting.items() if name not in over}
        return replace(self, deleting=left)


def _some(names: Iterable[str], *, at_most: int = 20) -> str:
    """Names for an error: thousands would hide it."""
    ordered = sorted(names)
    shown = ", ".join(ordered[:at_most]) or "none yet"
    return f"{shown} and {len(ordered) - at_most} more" if len(ordered) > at_most else shown
