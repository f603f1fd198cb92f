"""The manifest of a repository: the current and earlier artifacts of each model on each target.

A manifest is a JSON document with one line per model. 5,000 models with two artifacts each take 8 MB, which
are parsed in half a second; a client parses only the lines it needs. `fleet prune` limits its size.

One invalid record does not stop the other models: it is kept as it is, and refused when its model is asked
for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Any

from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError, Problem
from triton_models.base.suggest import did_you_mean
from triton_models.facts.limits import BUCKET_RULE
from triton_models.repository.model_record import (
    MOST_LEVELS,
    NEW,
    PARTS,
    ArtifactRecord,
    Change,
    ModelLines,
    ModelRecord,
    Publication,
    Rollout,
    Share,
    in_json,
    levels,
    lines_of,
    model_document,
    model_record,
    refuse_constant,
    shown,
)

__all__ = ["PARTS", "ArtifactRecord", "Change", "ModelRecord", "Publication", "Rollout", "Share", "in_json"]

MANIFEST_NAME = "manifest.json"
VERSION = 2
REQUESTS = "requests"
"""The folder in a repository with the requests that warm models up."""

REPOSITORY_URL = Check(id="repository-url", source=FROM_ARGUMENTS)
MANIFEST = Check(id="manifest", source=FROM_ARGUMENTS)
MANIFEST_RECORD = Check(id="manifest-record", source=FROM_ARGUMENTS)
UNKNOWN_MODEL = Check(id="unknown-model", source=FROM_ARGUMENTS)
NO_ARTIFACT_FOR_TARGET = Check(id="no-artifact-for-target", source=FROM_ARGUMENTS)
AMBIGUOUS_TARGET = Check(id="ambiguous-target", source=FROM_ARGUMENTS)

# https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html, read 2026-11-21
_URL = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(?P<prefix>.*))?")

_MOST_LISTED = 20


def request_name(sha256: str) -> str:
    """Return the name in the repository of the request with that digest."""
    return f"{REQUESTS}/{sha256}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A model repository: the S3 prefix behind an endpoint.

    Attributes:
        prefix: "" or a prefix that ends with a slash.
    """

    bucket: str
    prefix: str

    @classmethod
    def parse(cls, url: str) -> Repository:
        """Return the repository of a URL such as s3://bucket/models/."""
        match = _URL.fullmatch(url)
        prefix = (match["prefix"] or "").rstrip("/") if match else ""
        if match is None or prefix.startswith("/") or "//" in prefix:
            raise REPOSITORY_URL.error(
                what=f"{url!r} is not the URL of a model repository",
                where="the repository",
                fix=f"use the RepositoryUrl output of the models stack, s3://bucket/prefix/; {BUCKET_RULE}",
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
        """Return the key of an object in the repository."""
        return f"{self.prefix}{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidRecord:
    """The document of a model that `fleet publish` would not have written, which is written back as it is."""

    document: Any
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The repository's models.

    Attributes:
        models: The valid records of the models, by name.
        deleting: The artifacts that a `fleet prune` is about to delete, with the id of that run. They no
            longer belong to a model.
    """

    models: Mapping[str, ModelRecord] = field(default_factory=dict)
    invalid: Mapping[str, InvalidRecord] = field(default_factory=dict)
    deleting: Mapping[str, str] = field(default_factory=dict)
    where: str = MANIFEST_NAME

    @classmethod
    def by_line(cls, document: bytes, *, where: str = MANIFEST_NAME) -> Manifest:
        """Read a document without parsing its models: each of them is parsed when it is first asked for.

        To parse 50 MB takes two seconds in which no other thread runs. A document in another form than
        `to_json` writes is parsed at once. The error of an invalid record comes when it is asked for.
        """
        lines = lines_of(document)
        if lines is None:
            return cls.from_json(document, where=where)
        models = ModelLines(lines[1], lambda name, reason: _invalid(name, reason, where=where))
        return cls(models=models, deleting=lines[0], where=where)

    @classmethod
    def from_json(cls, text: str | bytes, *, where: str = MANIFEST_NAME) -> Manifest:
        """Parse the manifest from a JSON document."""
        try:
            document = json.loads(text, parse_constant=refuse_constant)
            version = document["version"]
            if type(version) is int and version == VERSION:
                models, invalid = _read(document["models"].items())
                deleting = dict(document.get("deleting", {}).items())
                return cls(models=models, invalid=invalid, deleting=deleting, where=where)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise MANIFEST.error(
                what=f"not a manifest: {type(error).__name__} {error}",
                where=where,
                why="without it, the names of the repository's models are unknown",
                fix="restore an earlier version of the object; the bucket is versioned",
            ) from None
        raise MANIFEST.error(
            what=f"the manifest has version {shown(version)}",
            where=where,
            why="this version of Triton Fleet would lose unknown data",
            fix="use the version of Triton Fleet that wrote it",
        )

    def to_json(self) -> str:
        """Return the manifest as a JSON document; equal manifests give equal documents."""
        documents = {name: each.document for name, each in self.invalid.items()}
        documents |= {name: model_document(each) for name, each in self.models.items()}
        models = ",\n".join(
            f"{json.dumps(name)}: {json.dumps(documents[name], sort_keys=True)}" for name in sorted(documents)
        )
        deleting = json.dumps(dict(self.deleting), sort_keys=True)
        return f'{{"version": {VERSION}, "deleting": {deleting}, "models": {{\n{models}\n}}}}\n'

    def target_model(self, name: str, target: ArtifactTarget | None = None) -> str:
        """Return the target model (an artifact's file name) that a model's name refers to.

        The target is that of the endpoint; see `ModelRecord.on`. If None, the name must refer to the same
        artifact everywhere.

        Raises:
            FleetError: The model is unknown, has no artifact for the target, or is ambiguous without one.
        """
        model = self.model(name)
        artifact = model.on(target)
        if artifact is not None:
            return artifact
        targets = some_of([*map(str, model.current)])
        if target is not None:
            raise NO_ARTIFACT_FOR_TARGET.error(
                what=f"{name!r} has no artifact for {target}",
                where=self.where,
                why="an artifact for another target would not load there",
                fix=f"build it for that target, or use an endpoint for {targets}",
            )
        raise AMBIGUOUS_TARGET.error(
            what=f"{name!r} refers to {len({*model.current.values()})} artifacts, for {targets}",
            where=self.where,
            why="the release and GPU of the endpoint determine which of them loads",
            fix="pass the fleet's alias, which names the target, or the target itself",
        )

    def chosen(self, name: str, target: ArtifactTarget | None, part: int) -> str:
        """Return the target model for a request, which may be that of a candidate: see `ModelRecord.chosen`.

        Raises:
            FleetError: As `target_model`.
        """
        current, record = self.target_model(name, target), self.model(name)
        return current if record.candidate is None else record.chosen(target, part) or current

    def shadow(self, name: str, target: ArtifactTarget | None, part: int) -> Rollout | None:
        """Return the candidate that gets a copy of a request: see `ModelRecord.shadow`."""
        record = self.find(name)
        return None if record is None else record.shadow(target, part)

    def knows(self, name: str, target: ArtifactTarget | None) -> bool:
        """Return whether `target_model` finds an artifact."""
        try:
            model = self.find(name)
        except FleetError:
            return False
        return model is not None and model.on(target) is not None

    @property
    def names(self) -> list[str]:
        """The names of all models, in order, also of those with an invalid record."""
        return sorted({*self.models, *self.invalid})

    def model(self, name: str) -> ModelRecord:
        """Return a model's record."""
        found = self.find(name)
        if found is not None:
            return found
        fix = did_you_mean(name, self.models, otherwise=f"publish it, or name one of {some_of(self.models)}")
        raise UNKNOWN_MODEL.error(what=f"unknown model {name!r}", where=self.where, fix=fix)

    def find(self, name: str) -> ModelRecord | None:
        """Return a model's record; None if the model is unknown. An invalid record is an error."""
        if name in self.invalid:
            raise _invalid(name, self.invalid[name].reason, where=self.where)
        return self.models.get(name)

    def record(self, *, model: str, artifact: str) -> ArtifactRecord | None:
        """Return the record of a model's artifact; None if it was never published or is deleted."""
        known = self.find(model)
        return known.artifacts.get(artifact) if known is not None else None

    def unreadable(self, *, before: Manifest) -> Iterator[Problem]:
        """Yield the problems of records that differ from an earlier manifest's, and would be invalid."""
        for name, record in self.models.items():
            if record is not before.models.get(name):
                try:
                    model_record(name, model_document(record))
                except ValueError as error:
                    yield MANIFEST_RECORD.problem(
                        what=f"the record of {shown(name)} would be invalid: {error}",
                        where=self.where,
                        why="readers refuse the record, and the model could not be called by its name",
                        fix="correct the field in the artifact's build.json, or build the model again",
                    )

    def with_published(self, wanted: Iterable[Publication], *, at: datetime, by: str) -> Manifest:
        """Return a manifest in which each artifact is current for its targets; itself if nothing changes."""
        models = dict(self.models)
        for each in wanted:
            record = models.get(each.model) or self.find(each.model) or NEW
            models[each.model] = record.with_published(each, at=at, by=by)
        unchanged = all(models[name] is self.models.get(name) for name in models)
        return self if unchanged else replace(self, models=models)

    def with_promoted(self, wanted: Iterable[Publication], *, at: datetime, by: str) -> Manifest:
        """Return a manifest with the same current artifacts as another one; itself if they are the same.

        Unlike a publication, a promotion that is repeated leaves narrower targets as they are.
        """
        publications = list(wanted)
        absent = {each.model for each in publications if not (self.find(each.model) or NEW).has(each)}
        return self.with_published((each for each in publications if each.model in absent), at=at, by=by)

    def with_rollback(
        self, *, model: str, to: str, at: datetime, by: str, target: ArtifactTarget
    ) -> Manifest:
        """Return a manifest in which an earlier artifact of the model is current for a target again."""
        change = Change(target=target, artifact=to, how="rollback", at=at, by=by)
        return replace(self, models={**self.models, model: self.models[model].with_changes([change])})

    def with_candidate(self, wanted: Publication, *, share: Share, at: datetime, by: str) -> Manifest:
        """Return a manifest in which an artifact gets a share of its model's requests; itself if same."""
        before = self.model(wanted.model)
        record = before.with_candidate(wanted, share=share, at=at, by=by)
        return self if record is before else replace(self, models={**self.models, wanted.model: record})

    def with_rollout_ended(self, model: str, *, promoted: bool, at: datetime, by: str, why: str) -> Manifest:
        """Return a manifest in which a model's candidate is current, or gets no more requests."""
        record = self.model(model)
        candidate = record.candidate
        if candidate is None:
            return self
        if promoted:
            name = candidate.artifact
            publication = Publication(model=model, artifact=name, record=record.artifacts[name])
            record = record.with_published(publication, at=at, by=by)
        return replace(self, models={**self.models, model: record.ended("", at=at, by=by, why=why)})

    def without(self, artifacts: Iterable[str], *, run: str) -> Manifest:
        """Return a manifest that lists artifacts as being deleted by a run, and not under their models."""
        gone = set(artifacts)
        models = {
            name: record.without(gone) if gone & record.artifacts.keys() else record
            for name, record in self.models.items()
        }
        return replace(self, models=models, deleting={**self.deleting, **dict.fromkeys(gone, run)})

    def with_deleted(self, artifacts: Iterable[str]) -> Manifest:
        """Return a manifest without artifacts whose deletion is complete."""
        over = set(artifacts)
        left = {name: run for name, run in self.deleting.items() if name not in over}
        return replace(self, deleting=left)


def _read(entries: Iterable[tuple[str, Any]]) -> tuple[dict[str, ModelRecord], dict[str, InvalidRecord]]:
    """Return the valid and the invalid records."""
    models: dict[str, ModelRecord] = {}
    invalid: dict[str, InvalidRecord] = {}
    for name, document in entries:
        try:
            models[name] = model_record(name, document)
        except ValueError as error:
            if levels(document) > MOST_LEVELS:  # it could not be written back
                raise
            invalid[name] = InvalidRecord(document=document, reason=str(error))
    return models, invalid


def _invalid(name: str, reason: str, *, where: str) -> FleetError:
    return MANIFEST_RECORD.error(
        what=f"the record of {shown(name)} is invalid: {reason}",
        where=where,
        why="names in a manifest become keys and file names, and digests decide what is promoted",
        fix="find out in CloudTrail who wrote it, and copy this model's line from an earlier version of the "
        "object; the bucket is versioned",
    )


def some_of(names: Collection[str]) -> str:
    """Return a list of names for an error, with a limit: the first ones, because sorting all takes long."""
    first = ", ".join(sorted(islice(names, _MOST_LISTED))) or "none yet"
    return f"{first} and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else first
