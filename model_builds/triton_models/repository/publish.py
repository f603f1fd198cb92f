"""`fleet publish`: artifacts into a model repository, and then the names that stand for them.

An object is written only if its key is free, so nothing is ever overwritten. The manifest is written last,
and only if it is still the one that was read, so no publisher undoes another's work. An interrupted
publication has changed no name, or all of them; the next one sends what is missing and goes on.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from triton_models.artifact.plans import is_rehearsal, refused
from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.pack.pack import Artifact
from triton_models.repository.local import read_artifacts, records
from triton_models.repository.manifest import ArtifactRecord, Publication, Repository
from triton_models.repository.presence import missing
from triton_models.repository.s3 import (
    aws_errors,
    contended,
    publisher,
    repository_client,
    wanted_repository,
)
from triton_models.repository.sbom import store
from triton_models.repository.stored_manifest import ROUNDS, StoredManifest, read, read_manifest, replaced
from triton_models.repository.upload import PART_BYTES, upload

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

__all__ = ["Published", "aws_errors", "publish", "read_manifest", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The outcome of `fleet publish`.

    Attributes:
        repository: Its URL.
        uploaded: The artifacts that were not there yet.
        present: The artifacts that were there already, with the same content.
        targets: Each model's name with the target model that it stands for now.
        unchanged: The models whose names stood for that before.
    """

    repository: str
    uploaded: tuple[str, ...]
    present: tuple[str, ...]
    targets: dict[str, str]
    unchanged: tuple[str, ...] = ()
    exit_code: int = 0

    def as_dict(self) -> dict[str, Any]:
        """All of it."""
        return {
            "repository": self.repository,
            "uploaded": list(self.uploaded),
            "present": list(self.present),
            "targets": self.targets,
        }

    def lines(self) -> Iterator[str]:
        """One line for each model."""
        uploaded = set(self.uploaded)
        for model, target in sorted(self.targets.items()):
            how = "uploaded" if target in uploaded else "already there"
            yield f"{model} -> {self.repository}{target} ({how})"


def publish(
    artifacts: Iterable[Artifact],
    *,
    repository: str,
    s3: S3Client | None = None,
    portable: bool = False,
    by: str | None = None,
    part_bytes: int = PART_BYTES,
    inputs: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    target: ArtifactTarget | None = None,
    sbom: bytes | None = None,
) -> Published:
    """Upload artifacts and make each its model's current one.

    What is there already, with the same content, is not sent again. The manifest is written last, so a
    model's name never stands for an object that is not there.

    Args:
        artifacts: At most one for each model.
        repository: The model repository, such as s3://bucket/models/.
        s3: The client to use, for many threads; one from the environment if None.
        portable: Whether artifacts may be portable: no endpoint on AWS serves this repository.
        by: Who publishes, for the manifest; the build or the user of this process if None.
        part_bytes: From which size on an artifact is sent in parts, and their least size.
        inputs: What the builds depended on, by model and topic. An artifact that is there already keeps what
            was noted of it, unless something is given here.
        target: The target for which the names move, such as that of the endpoint which a build is for. By
            default all that each artifact runs on.
        sbom: The bill of materials of the environment that they were built in. An artifact that is there
            already keeps the one that was noted, unless one is given.

    Raises:
        FleetError: `check` refuses an artifact, two are of one model, one is portable or does not run on
            the target, an object of that name
            has other content, or S3 refuses: no such bucket, no credentials, no access, no answer.
    """
    wanted = tuple(artifacts)
    where = Repository.parse(repository)
    with aws_errors(where.url):
        client = s3 if s3 is not None else repository_client()
        # Read before anything is sent: a wrong bucket or missing credentials show here.
        stored = read(where, client)
        return _published(
            wanted,
            where,
            client,
            stored,
            portable=portable,
            by=by,
            part_bytes=part_bytes,
            inputs=inputs,
            target=target,
            sbom=sbom,
        )


def run(arguments: argparse.Namespace) -> Published:
    """`fleet publish ARTIFACT... [--repository URL] [--portable] [--target TARGET]`."""
    target = ArtifactTarget.parse(arguments.target) if arguments.target else None
    where = Repository.parse(wanted_repository(arguments.repository))
    with aws_errors(where.url):
        client = repository_client()
        stored = read(where, client)
        artifacts = read_artifacts(arguments.artifacts, stored.manifest)
        portable = arguments.portable or is_rehearsal()
        return _published(artifacts, where, client, stored, portable=portable, target=target)


def _published(
    wanted: Sequence[Artifact],
    where: Repository,
    s3: S3Client,
    stored: StoredManifest,
    *,
    portable: bool,
    by: str | None = None,
    part_bytes: int = PART_BYTES,
    inputs: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    target: ArtifactTarget | None = None,
    sbom: bytes | None = None,
) -> Published:
    bill = hashlib.sha256(sbom).hexdigest() if sbom else None
    kept = [
        replace(record, inputs=inputs.get(artifact.model, record.inputs), sbom=bill or record.sbom)
        for artifact, record in zip(wanted, records(wanted, stored.manifest), strict=True)
    ]
    if not portable:
        stand_ins = (a.path.name for a, record in zip(wanted, kept, strict=True) if record.portable)
        raise_if_any(refused(stand_ins, repository=where.url))
    if target is not None:
        raise_if_any(_not_for(target, wanted, kept))
    publications = list(_publications(wanted, kept, target))
    if sbom:
        store(sbom, where, s3)
    sent: set[str] = set()
    for _ in range(ROUNDS):
        _refuse_deleting(wanted, stored, where)
        # After the manifest was read, in each round: `fleet prune` may have deleted an artifact before that,
        # and if it begins to after that, the manifest is another one by the time it is to be replaced.
        absent = missing(wanted, stored.manifest, where, s3)
        sent.update(upload(absent, where, s3, part_bytes=part_bytes))
        new = stored.manifest.with_published(publications, at=stored.at, by=publisher() if by is None else by)
        if new is stored.manifest or replaced(stored, new, where, s3):
            names = tuple(artifact.path.name for artifact in wanted)
            return Published(
                repository=where.url,
                uploaded=tuple(name for name in names if name in sent),
                present=tuple(name for name in names if name not in sent),
                targets={each.model: each.artifact for each in publications},
                unchanged=tuple(each.model for each in publications if _is_current(each, stored)),
            )
        stored = read(where, s3)  # another publisher wrote or removed it: start from that
    raise contended(where.manifest_url)


def _is_current(wanted: Publication, stored: StoredManifest) -> bool:
    model = stored.manifest.models.get(wanted.model)
    return model is not None and all(model.on(target) == wanted.artifact for target in wanted.targets)


def _publications(
    wanted: Iterable[Artifact], kept: Iterable[ArtifactRecord], target: ArtifactTarget | None
) -> Iterator[Publication]:
    for artifact, record in zip(wanted, kept, strict=True):
        yield Publication(model=artifact.model, artifact=artifact.path.name, record=record, target=target)


def _not_for(
    target: ArtifactTarget, wanted: Iterable[Artifact], kept: Iterable[ArtifactRecord]
) -> Iterator[Problem]:
    for artifact, record in zip(wanted, kept, strict=True):
        if not record.runs_on(target):
            yield Problem(
                what=f"{artifact.path.name} runs on {', '.join(map(str, record.targets))}",
                where="the target to publish for",
                expected=f"an artifact for {target}",
                why="an endpoint of that target would answer every request for the model with an error",
                fix="build it for that release and GPU, or leave the target out",
                rule="publication-target",
            )


def _refuse_deleting(wanted: Iterable[Artifact], stored: StoredManifest, where: Repository) -> None:
    deleting = sorted({artifact.path.name for artifact in wanted} & stored.manifest.deleting.keys())
    if deleting:
        raise FleetError.of(
            what=f"`fleet prune` is deleting {', '.join(deleting)}",
            where=where.manifest_url,
            expected="an artifact that stays",
            why="its name would stand for an object that is about to go",
            fix="publish again when it is done; if it was interrupted, `fleet prune --resume` first",
            rule="being-deleted",
        )
