"""`fleet rollback`: make an earlier artifact of a model current again, on each target.

Repeated rollbacks go further back, and never to an artifact withdrawn by a rollback. `--to` can restore any
artifact, earlier or later.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from triton_models.artifact.layout import digest_of_artifact
from triton_models.artifact.targets import ANY, ArtifactTarget
from triton_models.base.errors import FleetError
from triton_models.base.outcome import JsonReady
from triton_models.base.suggest import did_you_mean
from triton_models.repository.download import not_as_recorded
from triton_models.repository.manifest import Manifest, ModelRecord, Repository
from triton_models.repository.s3 import aws_errors, publisher, repository_client, wanted_repository
from triton_models.repository.stored_manifest import MANIFEST_AGE_S, StoredManifest, read, update
from triton_models.repository.upload import stored_sha256

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved(JsonReady):
    """The rollback on one target.

    Attributes:
        current: The current artifact after the rollback.
        before: The current artifact before it; the same one if nothing changed.
    """

    target: ArtifactTarget
    current: str
    before: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack(JsonReady):
    """The outcome of `fleet rollback`.

    Attributes:
        moved: The rollback on each target, at least one.
        kept: The other targets, with their unchanged current artifact.
    """

    repository: str
    model: str
    moved: tuple[Moved, ...]
    kept: Mapping[ArtifactTarget, str] = field(default_factory=lambda: MappingProxyType({}))
    exit_code: int = 0

    @property
    def current(self) -> str:
        """The current artifact on the first target."""
        return self.moved[0].current

    @property
    def before(self) -> str | None:
        """The previous artifact on the first target."""
        return self.moved[0].before

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON-ready data."""
        return {**JsonReady.as_dict(self), "current": self.current, "before": self.before}

    def _named(self, target: ArtifactTarget) -> str:
        return self.model if target == ANY else f"{self.model} on {target}"

    def lines(self) -> Iterator[str]:
        """Yield the changes, and the time from which clients use them."""
        for each in self.moved:
            on = f"{self._named(each.target)} -> {self.repository}{each.current}"
            yield f"{on} (unchanged)" if each.before == each.current else f"{on} (was {each.before})"
        for target, artifact in self.kept.items():
            yield f"{self._named(target)} remains {artifact}, which has no predecessor"
        if any(each.before != each.current for each in self.moved):
            yield (
                f"triton_models.client uses it after {MANIFEST_AGE_S:.0f} s, from the second request "
                "on; others when they read the manifest again; an instance without it loads it at the first "
                "request"
            )


def rollback(
    model: str,
    *,
    repository: str,
    to: str | None = None,
    target: ArtifactTarget | None = None,
    s3: S3Client | None = None,
    by: str | None = None,
) -> RolledBack:
    """Make an earlier artifact of a model its current one again.

    Args:
        model: The model's name.
        repository: The model repository, such as s3://bucket/models/.
        to: The artifact's file name or its digest; None for the one before the current one.
        target: The target of the rollback. By default every target on which the model has an earlier
            artifact; with `to`, every target that artifact runs on.
        s3: The client to use; None creates one from the environment.
        by: The author for the manifest; None for the user of this process.

    Raises:
        FleetError: The model or artifact is unknown, there is no earlier artifact, it does not run on the
            target, its object is missing or changed, the model was changed by another publisher meanwhile, or
            S3 refuses.
    """
    where = Repository.parse(repository)
    with aws_errors(where.url):
        client = s3 if s3 is not None else repository_client()
        stored = read(where, client)
        before = stored.manifest.model(model)
        chosen = _chosen(before, to, target, model=model, where=where)
        by = publisher() if by is None else by
        _move(model, chosen, stored, where, client, by=by)
    return RolledBack(
        repository=where.url,
        model=model,
        moved=tuple(
            Moved(target=each, current=artifact, before=before.on(each)) for each, artifact in chosen.items()
        ),
        kept={each: artifact for each, artifact in before.current.items() if each not in chosen}
        if target is None
        else {},
    )


def run(arguments: argparse.Namespace) -> RolledBack:
    """Run `fleet rollback NAME [--to ARTIFACT] [--target TARGET]`."""
    return rollback(
        arguments.model,
        repository=wanted_repository(arguments.repository),
        to=arguments.to,
        target=ArtifactTarget.parse(arguments.target) if arguments.target else None,
    )


def _move(
    model: str,
    chosen: Mapping[ArtifactTarget, str],
    stored: StoredManifest,
    where: Repository,
    s3: S3Client,
    *,
    by: str,
) -> None:
    before = stored.manifest.model(model)

    def moved(stored: StoredManifest) -> Manifest:
        record, new = stored.manifest.model(model), stored.manifest
        if all(record.on(target) == artifact for target, artifact in chosen.items()):
            return new  # unchanged, or the response of an earlier attempt was lost
        # The artifact to restore is fixed, so that another publication is not undone by accident.
        if any(record.history_of(target) != before.history_of(target) for target in chosen):
            raise _changed_meanwhile(model, record, where)
        for target, artifact in chosen.items():
            _refuse_gone(record, artifact, where, s3)
            new = new.with_rollback(model=model, to=artifact, target=target, at=stored.at, by=by)
        return new

    update(moved, where, s3, stored=stored)


def _chosen(
    record: ModelRecord, to: str | None, target: ArtifactTarget | None, *, model: str, where: Repository
) -> dict[ArtifactTarget, str]:
    """Return the artifact to restore on each target."""
    targets = list(record.current) if target is None else [target]
    if to is not None:
        return _chosen_by_name(record, to, target, model=model, where=where)
    found = {each: earlier[-1] for each in targets if (earlier := record.earlier(each))}
    if found:
        return found
    now = ", ".join(sorted({artifact for each in targets if (artifact := record.on(each))})) or "any"
    raise FleetError.of(
        what=f"{model!r} has no artifact before {now}" + (f" on {target}" if target else ""),
        where=where.manifest_url,
        fix=f"run `fleet history {model}` to list the artifacts, and choose one with --to",
        rule="no-earlier-artifact",
    )


def _chosen_by_name(
    record: ModelRecord, to: str, target: ArtifactTarget | None, *, model: str, where: Repository
) -> dict[ArtifactTarget, str]:
    names = [name for name in record.artifacts if to in (name, digest_of_artifact(name))]
    if not names:
        raise FleetError.of(
            what=f"{model!r} has no artifact {to!r}",
            where=where.manifest_url,
            fix=did_you_mean(
                to,
                list(record.artifacts),
                otherwise=f"name one of {', '.join(record.by_publication()) or 'none'}, or publish it",
            ),
            rule="unknown-artifact",
        )
    name, kept = names[0], record.artifacts[names[0]]
    targets = [each for each in record.current if kept.runs_on(each)] or list(kept.targets)
    if target is None:
        return dict.fromkeys(targets, name)
    if kept.runs_on(target):
        return {target: name}
    raise FleetError.of(
        what=f"{name} runs on {', '.join(map(str, kept.targets))}",
        where=where.manifest_url,
        why="an endpoint of that target would answer every request with an error",
        fix=f"run `fleet history {model}` to see the targets of each artifact",
        rule="publication-target",
    )


def _refuse_gone(record: ModelRecord, target: str, where: Repository, s3: S3Client) -> None:
    found, expected = stored_sha256(target, where, s3), record.artifacts[target].sha256
    if found == expected:
        return
    raise FleetError([not_as_recorded(target, where, sha256=expected, found=found)])


def _changed_meanwhile(model: str, record: ModelRecord, where: Repository) -> FleetError:
    last = record.history[-1] if record.history else None
    return FleetError.of(
        what=f"{model!r} was changed meanwhile to {', '.join(record.current.values())}",
        where=where.manifest_url,
        why=f"{last.by} changed it: {last.how}" if last else "another publisher changed it",
        fix=f"check `fleet history {model}`, then roll back again if necessary",
        rule="changed-meanwhile",
    )
