"""`fleet prune`: delete artifacts that are no longer needed.

The manifest is written first: it drops the artifacts and lists them as being deleted. Then the objects are
deleted, then the list. A name therefore never refers to a deleted object, even after an interruption. A
concurrent publisher of these artifacts fails and is asked to wait. `--resume` continues an interrupted run.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from triton_models.artifact.targets import ArtifactTarget
from triton_models.base import options as opt
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.errors import Problem, raise_if_any
from triton_models.base.outcome import JsonReady
from triton_models.repository.endpoints import live_targets, named_by_models, sagemaker_client
from triton_models.repository.manifest import Manifest, ModelRecord
from triton_models.repository.model_record import ARTIFACT_NAME, shown
from triton_models.repository.objects import Store, opened
from triton_models.repository.publish import BEING_DELETED
from triton_models.repository.stored_manifest import StoredManifest, read, update

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sagemaker import SageMakerClient

# Clients cache the manifest for seconds; applications that keep an artifact's name are redeployed within
# days.
OLDER_THAN = timedelta(days=7)
_MOST_DAYS = 36_500

KEEP = Check(id="prune-keep", source=FROM_ARGUMENTS)
OLDER = Check(id="prune-older-than", source=FROM_ARGUMENTS)
DELETING = Check(id="deleting-name", source=FROM_ARGUMENTS)
NOT_DELETED = Check(id="not-deleted", source=FROM_ARGUMENTS)

# The maximum number of keys per DeleteObjects request.
_BATCH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned(JsonReady):
    """The outcome of `fleet prune`.

    Attributes:
        deleted: The deleted artifacts with their sizes in bytes; 0 if an interrupted run did not record it.
        held: The artifacts kept only because SageMaker Models name them, with the names of the Models.
    """

    repository: str
    deleted: Mapping[str, int]
    held: Mapping[str, tuple[str, ...]]
    dry_run: bool

    @property
    def freed(self) -> int:
        """The number of bytes deleted."""
        return sum(self.deleted.values())

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON-ready data."""
        return {**JsonReady.as_dict(self), "freed": self.freed}

    def lines(self) -> Iterator[str]:
        """Yield one line per artifact, then the sum."""
        would = "would be " if self.dry_run else ""
        for name, size in self.deleted.items():
            yield f"{name}: {would}deleted ({size / 1e6:,.1f} MB)"
        for name, models in self.held.items():
            yield f"{name}: kept for the SageMaker Model {', '.join(models)}"
        count = len(self.deleted)
        yield f"{count} artifact{'s' * (count != 1)}, {self.freed / 1e6:,.1f} MB {would}deleted"
        if count:
            yield (
                "in a versioned bucket they can be restored, and are billed, until a lifecycle rule ends them"
            )


def expendable(
    manifest: Manifest,
    *,
    keep: int,
    older_than: timedelta,
    now: datetime,
    live: frozenset[ArtifactTarget] | None = None,
) -> dict[str, int]:
    """Return the artifacts that can be deleted, with their sizes.

    Each model keeps the `keep` newest artifacts and those current within `older_than`. For each target of a
    live endpoint it also keeps the current artifact and the one `fleet rollback` would restore. An artifact
    current only for targets without an endpoint counts as current until the model's last change.
    """
    return {
        name: model.artifacts[name].size
        for model in manifest.models.values()
        for name in _expendable(model, keep=keep, since=now - older_than, live=live)
    }


def prune(
    *,
    repository: str | None,
    keep: int,
    older_than: timedelta = OLDER_THAN,
    dry_run: bool = False,
    resume: bool = False,
    s3: S3Client | None = None,
    sagemaker: SageMakerClient | None = None,
) -> Pruned:
    """Delete the artifacts that `expendable` returns, unless a SageMaker Model names them.

    Objects missing in the manifest are kept.

    Raises:
        FleetError: `keep` or `older_than` is out of range, another run is active or was interrupted, the
            manifest lists something else as being deleted, or AWS refuses. In addition to the permissions
            for publishing, it needs s3:DeleteObject, sagemaker:ListModels,
            ListEndpoints, DescribeModel, DescribeEndpoint and DescribeEndpointConfig.
    """
    _check_numbers(keep, older_than / timedelta(days=1))
    with opened(repository, s3) as store:
        models = sagemaker or sagemaker_client(store)
        named = named_by_models(store.repository, models)
        live = live_targets(store.repository, models)

        def rule(stored: StoredManifest) -> dict[str, int]:
            return expendable(stored.manifest, keep=keep, older_than=older_than, now=stored.at, live=live)

        stored = read(store)
        _check_deleting(stored.manifest)
        left_over = dict.fromkeys(stored.manifest.deleting, 0)
        if left_over and not resume and not dry_run:
            raise BEING_DELETED.error(
                what=f"another `fleet prune` is deleting {len(left_over)} artifacts, or was interrupted: "
                f"{next(iter(left_over))} ...",
                where=store.repository.manifest_url,
                why="an artifact published again meanwhile could be deleted",
                fix="wait for the other run; if it no longer runs, add --resume",
            )
        found = rule(stored)
        if not dry_run:
            found = left_over | _forget(stored, store, named, rule)
            # A new endpoint may name an artifact of an interrupted run, which is then dropped but kept in S3.
            _delete([name for name in found if name not in named], store)
            if found:
                update(lambda stored: stored.manifest.with_deleted(found), store)
    return Pruned(
        repository=store.url,
        deleted={name: size for name, size in sorted(found.items()) if name not in named},
        held={name: named[name] for name in sorted(left_over | rule(stored)) if name in named},
        dry_run=dry_run,
    )


@dataclass(frozen=True, kw_only=True)
class PruneOptions(opt.RepositoryOptions):
    """Options of `fleet prune`."""

    keep: opt.Integer = opt.option("keep the newest N artifacts of each model", required=True)
    older_than: int = opt.option(
        "delete only artifacts that have not been current for this long", default=7, type=int, metavar="DAYS"
    )
    dry_run: bool = opt.flag("only list what would be deleted")
    resume: bool = opt.flag("finish an interrupted run")


def run(options: PruneOptions) -> Pruned:
    """Run `fleet prune --keep N [--older-than DAYS] [--dry-run]`."""
    _check_numbers(options.keep, options.older_than)
    return prune(
        repository=options.repository,
        keep=options.keep,
        older_than=timedelta(days=options.older_than),
        dry_run=options.dry_run,
        resume=options.resume,
    )


def _expendable(
    model: ModelRecord, *, keep: int, since: datetime, live: frozenset[ArtifactTarget] | None
) -> Iterator[str]:
    order = model.by_publication()
    # Several endpoints share a wide target, some of which may be unknown.
    targets = [each for each in model.current if live is None or each.width]
    targets += live or ()
    kept = {*order[-keep:]}
    for target in targets:
        kept.update(filter(None, [model.on(target), *model.earlier(target)[-1:]]))
    last = model.history[-1].at if model.history else None
    for name in order:
        left = last if name in model.current.values() else model.left_at(name)
        if name not in kept and left is not None and left <= since:
            yield name


def _forget(
    stored: StoredManifest,
    store: Store,
    named: Mapping[str, Sequence[str]],
    rule: Callable[[StoredManifest], dict[str, int]],
) -> dict[str, int]:
    """Remove expendable artifacts from the current manifest, and return them."""
    run, tried, found = uuid.uuid4().hex, dict[str, int](), dict[str, int]()

    def without(stored: StoredManifest) -> Manifest:
        # An earlier write may have succeeded although its response was lost.
        mine = {name: size for name, size in tried.items() if stored.manifest.deleting.get(name) == run}
        more = {name: size for name, size in rule(stored).items() if name not in named}
        tried.update(more)
        found.clear()
        found.update(mine | more)
        return stored.manifest.without(more, run=run) if more else stored.manifest

    update(without, store, stored=stored)
    return found


def _delete(names: Sequence[str], store: Store) -> None:
    problems: list[Problem] = []
    bucket = store.repository.bucket
    for start in range(0, len(names), _BATCH):
        batch: Any = [{"Key": store.repository.key(name)} for name in names[start : start + _BATCH]]
        answer = store.s3.delete_objects(Bucket=bucket, Delete={"Objects": batch, "Quiet": True})
        problems += (
            NOT_DELETED.problem(
                what=f"S3 cannot delete the object: {error.get('Code')} {error.get('Message')}",
                where=f"s3://{bucket}/{error.get('Key')}",
                why="until it is deleted, the artifact cannot be published again",
                fix="allow s3:DeleteObject on the prefix, then run `fleet prune --resume`",
            )
            for error in answer.get("Errors", ())
        )
    raise_if_any(problems)


def _check_numbers(keep: int, days: float) -> None:
    report = Report("the command line")
    if keep < 1:
        fix = "use --keep 1 to keep only the current artifact and the one for `fleet rollback`"
        report(KEEP, f"--keep {keep}", fix=fix)
    if not 0 <= days <= _MOST_DAYS:
        fix = f"give 0 to {_MOST_DAYS} days, or omit it for {OLDER_THAN.days}"
        report(OLDER, f"--older-than {days:g}", fix=fix)
    report.raise_if_any()


def _check_deleting(manifest: Manifest) -> None:
    """Check that a run may have listed what is being deleted: `--resume` deletes it."""
    report = Report(manifest.where)
    served = {name for model in manifest.models.values() for name in model.artifacts}
    for name in manifest.deleting:
        artifact = ARTIFACT_NAME.fullmatch(name) is not None
        if name in served or not artifact:
            other = "is an artifact of a model" if artifact else "is not an artifact"
            report(
                DELETING,
                f"{shown(name)} is listed as being deleted, but {other}",
                fix="find out in CloudTrail who wrote it, and remove it from `deleting` in the manifest",
            )
    report.raise_if_any()
