"""The repository's list: which artifact each model's name stands for now, and which ones before."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

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
        build: What it was built from and for.
    """

    size: int
    sha256: str
    build: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """One model.

    Attributes:
        current: The artifact its name stands for.
        history: Every artifact that was current, newest last.
        artifacts: The artifacts by their file names.
    """

    current: str
    history: tuple[str, ...]
    artifacts: Mapping[str, ArtifactRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The repository's models.

    Attributes:
        models: Model name -> its record.
        where: Where it was read from, for errors.
    """

    models: Mapping[str, ModelRecord] = field(default_factory=lambda: MappingProxyType({}))
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
        models = {name: asdict(model) for name, model in self.models.items()}
        return json.dumps({"version": VERSION, "models": models}, indent=2, sort_keys=True) + "\n"

    def target_model(self, name: str) -> str:
        """The target model, an artifact's file name, that a model's name stands for.

        Raises:
            FleetError: No model has that name.
        """
        if name in self.models:
            return self.models[name].current
        known = ", ".join(sorted(self.models)) or "none yet"
        raise FleetError.of(
            what=f"there is no model {name!r}",
            where=self.where,
            expected=f"a published model: {known}",
            fix=did_you_mean(name, self.models, otherwise="publish it with `fleet publish`"),
            rule="unknown-model",
        )

    def with_current(self, *, model: str, artifact: str, record: ArtifactRecord) -> Manifest:
        """This manifest with an artifact made a model's current one; itself if it already is."""
        old = self.models.get(model)
        if old is not None and old.current == artifact and old.artifacts.get(artifact) == record:
            return self
        history = old.history if old is not None else ()
        if not history or history[-1] != artifact:
            history = (*history, artifact)
        artifacts = {**(old.artifacts if old is not None else {}), artifact: record}
        new = ModelRecord(current=artifact, history=history, artifacts=artifacts)
        return replace(self, models={**self.models, model: new})


def _model_record(document: dict[str, Any]) -> ModelRecord:
    return ModelRecord(
        current=document["current"],
        history=tuple(document["history"]),
        artifacts={
            name: ArtifactRecord(size=each["size"], sha256=each["sha256"], build=each["build"])
            for name, each in document["artifacts"].items()
        },
    )
