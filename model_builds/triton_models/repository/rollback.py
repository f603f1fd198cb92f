"""`fleet rollback`: make an earlier artifact of a model current again, on each target.

Repeated rollbacks go further back, and never to an artifact withdrawn by a rollback. `--to` can restore any
artifact, earlier or later.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from triton_models.artifact.layout import digest_of_artifact
from triton_models.artifact.targets import ANY, ArtifactTarget
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError
from triton_models.base.outcome import JsonReady
from triton_models.base.suggest import did_you_mean
from triton_models.repository.manifest import Manifest, ModelRecord
from triton_models.repository.objects import Store, opened
from triton_models.repository.publish import PUBLICATION_TARGET
from triton_models.repository.s3 import publisher
from triton_models.repository.stored_manifest import MANIFEST_AGE_S, StoredManifest, read, update

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

NO_EARLIER_ARTIFACT = Check(id="no-earlier-artifact", source=FROM_ARGUMENTS)
UNKNOWN_ARTIFACT = Check(id="unknown-artifact", source=FROM_ARGUMENTS)
CHANGED_MEANWHILE = Check(id="changed-meanwhile", source=FROM_ARGUMENTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved(JsonReady):
    """The rollback on one target.

    Attributes:
        before: The artifact that was current before; the same one if nothing changed.
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
    kept: Mapping[ArtifactTarget, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON-ready data, with that of the first target as well."""
        first = self.moved[0]
        return {**JsonReady.as_dict(self), "current": first.current, "before": first.before}

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
    repository: str | None,
    to: str | None = None,
    target: ArtifactTarget | None = None,
    s3: S3Client | None = None,
    by: str | None = None,
) -> RolledBack:
    """Make an earlier artifact of a model its current one again.

    That is the one before the current one, or the one with the file name or digest `to`; on one target, or on
    every target with an earlier artifact or, with `to`, that it runs on.
    """
    with opened(repository, s3) as store:
        stored = read(store)
        before = stored.manifest.model(model)
        chosen = _chosen(before, to, target, model=model, where=store.repository.manifest_url)
        _move(model, chosen, stored, store, by=publisher() if by is None else by)
    kept = {each: artifact for each, artifact in before.current.items() if each not in chosen}
    return RolledBack(
        repository=store.url,
        model=model,
        moved=tuple(
            Moved(target=each, current=artifact, before=before.on(each)) for each, artifact in chosen.items()
        ),
        kept=kept if target is None else {},
    )


def run(arguments: argparse.Namespace) -> RolledBack:
    """Run `fleet rollback NAME [--to ARTIFACT] [--target TARGET]`."""
    return rollback(
        arguments.model,
        repository=arguments.repository,
        to=arguments.to,
        target=ArtifactTarget.parse(arguments.target) if arguments.target else None,
    )


def _move(
    model: str, chosen: Mapping[ArtifactTarget, str], stored: StoredManifest, store: Store, *, by: str
) -> None:
    before = stored.manifest.model(model)

    def moved(stored: StoredManifest) -> Manifest:
        record, new = stored.manifest.model(model), stored.manifest
        if all(record.on(target) == artifact for target, artifact in chosen.items()):
            return new  # unchanged, or the response of an earlier attempt was lost
        # The artifact to restore is fixed, so that another publication is not undone by accident.
        if any(record.history_of(target) != before.history_of(target) for target in chosen):
            raise _changed_meanwhile(model, record, store)
        for target, artifact in chosen.items():
            found, recorded = store.sha256(artifact), record.artifacts[artifact].sha256
            if found != recorded:
                raise FleetError([store.not_as_recorded(artifact, sha256=recorded, found=found)])
            new = new.with_rollback(model=model, to=artifact, target=target, at=stored.at, by=by)
        return new

    update(moved, store, stored=stored)


def _chosen(
    record: ModelRecord, to: str | None, target: ArtifactTarget | None, *, model: str, where: str
) -> dict[ArtifactTarget, str]:
    """Return the artifact to restore on each target."""
    if to is not None:
        return _chosen_by_name(record, to, target, model=model, where=where)
    targets = list(record.current) if target is None else [target]
    found = {each: earlier[-1] for each in targets if (earlier := record.earlier(each))}
    if found:
        return found
    now = ", ".join(sorted({artifact for each in targets if (artifact := record.on(each))})) or "any"
    raise NO_EARLIER_ARTIFACT.error(
        what=f"{model!r} has no artifact before {now}" + (f" on {target}" if target else ""),
        where=where,
        fix=f"run `fleet history {model}` to list the artifacts, and choose one with --to",
    )


def _chosen_by_name(
    record: ModelRecord, to: str, target: ArtifactTarget | None, *, model: str, where: str
) -> dict[ArtifactTarget, str]:
    name = next((name for name in record.artifacts if to in (name, digest_of_artifact(name))), None)
    if name is None:
        otherwise = f"name one of {', '.join(record.by_publication()) or 'none'}, or publish it"
        fix = did_you_mean(to, record.artifacts, otherwise=otherwise)
        raise UNKNOWN_ARTIFACT.error(what=f"{model!r} has no artifact {to!r}", where=where, fix=fix)
    kept = record.artifacts[name]
    if target is None:
        targets = [each for each in record.current if kept.runs_on(each)] or list(kept.targets)
        return dict.fromkeys(targets, name)
    if kept.runs_on(target):
        return {target: name}
    raise PUBLICATION_TARGET.error(
        what=f"{name} runs on {', '.join(map(str, kept.targets))}",
        where=where,
        why="an endpoint of that target would answer every request with an error",
        fix=f"run `fleet history {model}` to see the targets of each artifact",
    )


def _changed_meanwhile(model: str, record: ModelRecord, store: Store) -> FleetError:
    last = record.history[-1] if record.history else None
    return CHANGED_MEANWHILE.error(
        what=f"{model!r} was changed meanwhile to {', '.join(record.current.values())}",
        where=store.repository.manifest_url,
        why=f"{last.by} changed it: {last.how}" if last else "another publisher changed it",
        fix=f"check `fleet history {model}`, then roll back again if necessary",
    )
