"""`fleet rollback`: the name of a model back to an artifact that it stood for before.

One rollback after another goes further back, because who rolls back twice found both versions bad. It never
goes to an artifact that was rolled back from; `--to` does, and goes forth as well.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from triton_models.errors import FleetError
from triton_models.layout import ARCHIVE_SUFFIX
from triton_models.manifest import ModelRecord, Repository
from triton_models.publishing.presence import stored_sha256
from triton_models.publishing.s3 import (
    aws_errors,
    contended,
    publisher,
    repository_client,
    wanted_repository,
)
from triton_models.publishing.stored_manifest import ROUNDS, StoredManifest, read, replaced
from triton_models.suggest import did_you_mean

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack:
    """The outcome of `fleet rollback`.

    Attributes:
        repository: Its URL.
        model: The model's name.
        current: The artifact that the name stands for now.
        before: The one that it stood for; the same one if nothing had to be done.
    """

    repository: str
    model: str
    current: str
    before: str
    exit_code: int = 0

    def as_dict(self) -> dict[str, Any]:
        """All of it."""
        return {
            "repository": self.repository,
            "model": self.model,
            "current": self.current,
            "before": self.before,
        }

    def lines(self) -> Iterator[str]:
        """What was done, and when it is seen."""
        from triton_models.client import MANIFEST_AGE_S

        target = f"{self.repository}{self.current}"
        if self.before == self.current:
            yield f"{self.model} -> {target} (as it was)"
            return
        yield f"{self.model} -> {target} (was {self.before})"
        yield (
            f"applications with triton_models.client ask for it within {MANIFEST_AGE_S:.0f} s, others when "
            "they read the manifest again; an instance without it loads it at the first request"
        )


def rollback(
    model: str,
    *,
    repository: str,
    to: str | None = None,
    s3: S3Client | None = None,
    by: str | None = None,
) -> RolledBack:
    """Make an earlier artifact of a model its current one again.

    Args:
        model: The model's name.
        repository: The model repository, such as s3://bucket/models/.
        to: The artifact's file name, or the digest in it. The one before the current one if None.
        s3: The client to use; one from the environment if None.
        by: Who does so, for the manifest; the user of this process if None.

    Raises:
        FleetError: There is no such model or artifact, none before the current one, its object is gone or
            changed, the model was published or rolled back by somebody else meanwhile, or S3 refuses.
    """
    where = Repository.parse(repository)
    with aws_errors(where.url):
        client = s3 if s3 is not None else repository_client()
        stored = read(where, client)
        before = stored.manifest.model(model)
        target = _chosen(before, to, model=model, where=where)
        by = publisher() if by is None else by
        _move(model, target, stored, where, client, by=by)
    return RolledBack(repository=where.url, model=model, current=target, before=before.current)


def run(arguments: argparse.Namespace) -> RolledBack:
    """`fleet rollback NAME [--to ARTIFACT]`."""
    return rollback(arguments.model, repository=wanted_repository(arguments.repository), to=arguments.to)


def _move(
    model: str, target: str, stored: StoredManifest, where: Repository, s3: S3Client, *, by: str
) -> None:
    before = stored.manifest.model(model)
    for _ in range(ROUNDS):
        record = stored.manifest.model(model)
        if record.current == target:
            return  # as it was, or an earlier attempt's answer was lost
        # What "the one before" means was decided once: another's publication must not be undone unseen.
        if record.history != before.history:
            raise _changed_meanwhile(model, record, where)
        _refuse_gone(record, target, where, s3)
        new = stored.manifest.with_rollback(model=model, to=target, at=stored.at, by=by)
        if replaced(stored, new, where, s3):
            return
        stored = read(where, s3)
    raise contended(where.manifest_url)


def _chosen(record: ModelRecord, to: str | None, *, model: str, where: Repository) -> str:
    if to is None:
        earlier = record.earlier()
        if earlier:
            return earlier[-1]
        raise FleetError.of(
            what=f"there is no artifact of {model!r} before {record.current}",
            where=where.manifest_url,
            expected="a model that was published at least twice",
            fix=f"`fleet releases {model}` shows what there is; --to names any of it",
            rule="no-earlier-artifact",
        )
    for name in record.artifacts:
        if to == name or to == _digest(name):
            return name
    raise FleetError.of(
        what=f"there is no artifact {to!r} of {model!r}",
        where=where.manifest_url,
        expected=f"one of {', '.join(record.by_publication()) or 'none'}",
        fix=did_you_mean(to, list(record.artifacts), otherwise="publish it with `fleet publish`"),
        rule="unknown-artifact",
    )


def _digest(name: str) -> str:
    return name.removesuffix(ARCHIVE_SUFFIX).rpartition("-")[2]


def _refuse_gone(record: ModelRecord, target: str, where: Repository, s3: S3Client) -> None:
    found, expected = stored_sha256(target, where, s3), record.artifacts[target].sha256
    if found == expected:
        return
    raise FleetError.of(
        what="the object is gone" if found is None else f"the object holds something else: SHA-256 {found}",
        where=f"{where.url}{target}",
        expected=f"the artifact that was published, SHA-256 {expected}",
        why="the model's name would stand for something that nobody can load",
        fix="restore the object's earlier version (the bucket is versioned), or name another one with --to",
        rule="artifact-gone" if found is None else "artifact-changed",
    )


def _changed_meanwhile(model: str, record: ModelRecord, where: Repository) -> FleetError:
    last = record.history[-1] if record.history else None
    return FleetError.of(
        what=f"{model!r} stands for {record.current} since a moment ago",
        where=where.manifest_url,
        expected="the model as it was when this began",
        why=f"{last.by} moved it: {last.how}" if last else "somebody moved it",
        fix=f"look with `fleet releases {model}`, then roll back again if you still want to",
        rule="changed-meanwhile",
    )
