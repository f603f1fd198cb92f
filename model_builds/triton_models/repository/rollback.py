"""`fleet rollback`: make an earlier artifact of a model current again, on each target.

Repeated rollbacks go further back, and never to an artifact withdrawn by a rollback. `--to` can restore any
artifact, earlier or later. `--run` restores those of all models that moved together, in one write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from triton_models.artifact.layout import digest_of_artifact
from triton_models.artifact.targets import ANY, ArtifactTarget
from triton_models.base import options as opt
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import Problem, raise_if_any
from triton_models.base.outcome import JsonReady
from triton_models.base.suggest import did_you_mean
from triton_models.repository.manifest import Manifest, ModelRecord, some_of
from triton_models.repository.objects import Store, opened
from triton_models.repository.publish import PUBLICATION_TARGET
from triton_models.repository.s3 import S3Client, in_parallel, publisher
from triton_models.repository.stored_manifest import MANIFEST_AGE_S, StoredManifest, read, update

NO_EARLIER_ARTIFACT = Check(id="no-earlier-artifact", source=FROM_ARGUMENTS)
UNKNOWN_ARTIFACT = Check(id="unknown-artifact", source=FROM_ARGUMENTS)
CHANGED_MEANWHILE = Check(id="changed-meanwhile", source=FROM_ARGUMENTS)
UNKNOWN_RUN = Check(id="unknown-run", source=FROM_ARGUMENTS)
ROLLBACK_OPTIONS = Check(id="rollback-options", source=FROM_ARGUMENTS)

_Artifacts: TypeAlias = Mapping[ArtifactTarget, str]

LAST = "last"
"""The newest run, instead of its id."""


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
        moved: The rollback on each target; empty for a model of a run that has no predecessor.
        kept: The other targets, with their unchanged current artifact.
        dry_run: True if nothing was changed.
    """

    repository: str
    model: str
    moved: tuple[Moved, ...]
    kept: Mapping[ArtifactTarget, str] = field(default_factory=dict)
    dry_run: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON-ready data, with that of the first target as well."""
        first = self.moved[0] if self.moved else None
        current, before = (first.current, first.before) if first else (None, None)
        return {**JsonReady.as_dict(self), "current": current, "before": before}

    @property
    def changed(self) -> bool:
        """True if the current artifact of a target is another one."""
        return any(each.before != each.current for each in self.moved)

    def _named(self, target: ArtifactTarget) -> str:
        return self.model if target == ANY else f"{self.model} on {target}"

    def changes(self) -> Iterator[str]:
        """Yield one line per target."""
        for each in self.moved:
            on = f"{self._named(each.target)} -> {self.repository}{each.current}"
            yield f"{on} (unchanged)" if each.before == each.current else f"{on} (was {each.before})"
        for target, artifact in self.kept.items():
            yield f"{self._named(target)} remains {artifact}, which has no predecessor"

    def lines(self) -> Iterator[str]:
        """Yield the changes, and the time from which clients use them."""
        yield from self.changes()
        yield from _seen(changed=self.changed, dry_run=self.dry_run)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRolledBack(JsonReady):
    """The outcome of `fleet rollback --run`.

    Attributes:
        left: The models that have moved again since, and were left as they are.
        watched_s: The time for which no alarm fired, so that the run stays; None if it did not depend on one.
    """

    repository: str
    run: str
    models: tuple[RolledBack, ...]
    left: tuple[str, ...] = ()
    dry_run: bool = False
    watched_s: float | None = None

    def lines(self) -> Iterator[str]:
        """Yield one line per model and target, and the time from which clients use them."""
        if self.watched_s is not None:
            yield f"No alarm fired for {self.watched_s:.0f} s: the run {self.run} stays."
        for each in self.models:
            yield from each.changes()
        yield from _seen(changed=any(each.changed for each in self.models), dry_run=self.dry_run)


def _seen(*, changed: bool, dry_run: bool) -> Iterator[str]:
    """Yield when clients use what has changed."""
    if dry_run:
        yield "Nothing was changed: omit --dry-run to roll back."
    elif changed:
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
    dry_run: bool = False,
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
        if not dry_run:
            _move({model: chosen}, stored, store, by=by)
    kept = {each: artifact for each, artifact in before.current.items() if each not in chosen}
    return RolledBack(
        repository=store.url,
        model=model,
        moved=tuple(
            Moved(target=each, current=artifact, before=before.on(each)) for each, artifact in chosen.items()
        ),
        kept=kept if target is None else {},
        dry_run=dry_run,
    )


def rollback_run(
    run: str,
    *,
    repository: str | None,
    leave_moved: bool = False,
    dry_run: bool = False,
    s3: S3Client | None = None,
    by: str | None = None,
) -> RunRolledBack:
    """Make current again what was so before a run: for all its models in one write, or for none.

    A run is a promotion, a publication, or all publications of a build job. It has an id, or is "last".
    Models that have moved again since are an error, unless they are to be left as they are.
    """
    with opened(repository, s3) as store:
        stored, where = read(store), store.repository.manifest_url
        run = _run_id(run, stored.manifest, where=where)
        ways = [_way_back(model, record, run, store) for model, record in stored.manifest.models.items()]
        found = {back.model: (back, again) for back, again in filter(None, ways)}
        if not any(back.moved for back, _ in found.values()):
            raise NO_EARLIER_ARTIFACT.error(
                what=f"the run {run} published {some_of(found)} for the first time",
                where=where,
                fix="publish corrected artifacts",
            )
        left = [model for model, (back, again) in found.items() if again and back.changed]
        if not leave_moved:
            raise_if_any(_changed_meanwhile(each, stored.manifest.model(each), store) for each in left)
        models = tuple(back for model, (back, _) in found.items() if model not in left)
        if not dry_run:
            chosen = {each.model: {one.target: one.current for one in each.moved} for each in models}
            _move(chosen, stored, store, by=by)
    return RunRolledBack(repository=store.url, run=run, models=models, left=tuple(left), dry_run=dry_run)


@dataclass(frozen=True, kw_only=True)
class RollbackOptions(opt.RepositoryOptions):
    """Options of `fleet rollback`."""

    model: opt.Name | None = opt.argument("the model", nargs="?", within=opt.ONE)
    of_run: str | None = opt.option(
        "instead, all models that one promotion or build has moved, in one write: its id in `fleet "
        "history`, or last",
        "--run",
        metavar="RUN",
        within=opt.ONE,
    )
    to: str | None = opt.option(
        "the file name or digest of the artifact (default: the one before the current one)",
        metavar="ARTIFACT",
    )
    target: opt.Target | None = opt.option(
        "only for this target, such as sm86-trt10.13.3 (default: all that have an earlier artifact)"
    )
    dry_run: bool = opt.flag("only list what would change")
    watch: opt.Duration | None = opt.option(
        "read alarms for this time, such as 15m, and take the run back only if one fires", within=opt.ALARMS
    )
    alarms: Sequence[str] = opt.option(
        opt.ALARM_NAMES, nargs="+", default=(), metavar="ALARM", within=opt.ALARMS
    )
    endpoint: str | None = opt.option(opt.ALARM_ENDPOINT, within=opt.ALARMS)


def run(options: RollbackOptions) -> RolledBack | RunRolledBack:
    """Run `fleet rollback (NAME [--to ARTIFACT] [--target TARGET] | --run RUN) [--watch TIME]`."""
    watching = options.watch is not None or options.alarms or options.endpoint
    if watching and (options.of_run is None or options.dry_run):
        raise ROLLBACK_OPTIONS.error(
            what="--watch, --alarms and --endpoint are for --run, without --dry-run",
            where="the command line",
            fix="give --run last, or the id of a run in `fleet history`",
        )
    if options.of_run is not None:
        if options.to or options.target:
            raise ROLLBACK_OPTIONS.error(
                what="--run cannot be combined with --to or --target",
                where="the command line",
                why="each model of a run has its own earlier artifact",
                fix="omit them, or give the name of a model instead of --run",
            )
        if watching:
            return _watched(options.of_run, options)
        return rollback_run(options.of_run, repository=options.repository, dry_run=options.dry_run)
    return rollback(
        options.model or "",
        repository=options.repository,
        to=options.to,
        target=ArtifactTarget.parse(options.target) if options.target else None,
        dry_run=options.dry_run,
    )


def _watched(of_run: str, options: RollbackOptions) -> RunRolledBack:
    """Take a run back if an alarm fires."""
    from triton_models.repository.watch import RUN, watch_from_options

    with opened(options.repository) as store:
        watch = watch_from_options(
            seconds=options.watch,
            alarms=options.alarms,
            endpoint=options.endpoint,
            repository=store.url,
            where=RUN,
        )
        run = _run_id(of_run, read(store).manifest, where=store.repository.manifest_url)
        if watch is not None:
            watch.follow(run, store, by=publisher())
    return RunRolledBack(repository=store.url, run=run, models=(), watched_s=options.watch)


def _way_back(model: str, record: ModelRecord, run: str, store: Store) -> tuple[RolledBack, bool] | None:
    """Return the rollback of a model to what was current before a run, and if it has moved again since.

    None if the run has not moved it.
    """
    own = [each.how == "publish" and each.run == run for each in record.history]
    if not any(own):
        return None
    end = len(own) - own[::-1].index(True)
    first = end - next((n for n, each in enumerate(own[:end][::-1]) if not each), end)
    before, moved = record.before(first), {each.target for each in record.history[first:end]}
    # A publication for a wide target replaces the artifacts of narrower ones, which come back as well.
    targets = {each for each in before.current if any(target.covers(each) for target in moved)}
    order = sorted(targets | moved, key=lambda each: (-each.width, str(each)))
    to = {target: artifact for target in order if (artifact := before.on(target))}
    back = RolledBack(
        repository=store.url,
        model=model,
        moved=tuple(Moved(target=each, current=to[each], before=record.on(each)) for each in to),
        kept={each: artifact for each, artifact in record.current.items() if each in {*order} - {*to}},
    )
    since = [each.target for each in record.history[end:]]
    again = any(each.covers(target) or target.covers(each) for each in since for target in order)
    return back, again


def _run_id(run: str, manifest: Manifest, *, where: str) -> str:
    histories = (record.history for record in manifest.models.values())
    changes = [each for history in histories for each in history if each.how == "publish"]
    newest = max((each.at for each in changes), default=None)
    found = {each.run for each in changes if (each.at == newest if run == LAST else each.run == run)}
    if len(found) == 1:
        return found.pop()
    what = f"the newest runs are {', '.join(sorted(found))}" if found else f"unknown run {run!r}"
    raise UNKNOWN_RUN.error(what=what, where=where, fix="give the id of a run in `fleet history --json`")


def _move(chosen: Mapping[str, _Artifacts], stored: StoredManifest, store: Store, *, by: str | None) -> None:
    """Make artifacts current, of all models in one write."""
    before, author = stored.manifest, publisher() if by is None else by

    def moved(stored: StoredManifest) -> Manifest:
        new = stored.manifest
        # The others are unchanged, or the response of an earlier attempt was lost.
        moving = [each for each, to in chosen.items() if any(new.model(each).on(on) != to[on] for on in to)]
        # The artifact to restore is fixed, so that another publication is not undone by accident.
        raise_if_any(
            _changed_meanwhile(each, new.model(each), store)
            for each in moving
            if any(new.model(each).history_of(on) != before.model(each).history_of(on) for on in chosen[each])
        )
        _check_objects({name: new.model(each) for each in moving for name in chosen[each].values()}, store)
        for model in moving:
            for target, artifact in chosen[model].items():
                new = new.with_rollback(model=model, to=artifact, target=target, at=stored.at, by=author)
        return new

    update(moved, store, stored=stored)


def _check_objects(records: Mapping[str, ModelRecord], store: Store) -> None:
    """Check that artifacts are as the records of their models say."""
    found = in_parallel(store.sha256, records)
    raise_if_any(
        store.not_as_recorded(name, sha256=record.artifacts[name].sha256, found=sha256)
        for (name, record), sha256 in zip(records.items(), found, strict=True)
        if sha256 != record.artifacts[name].sha256
    )


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


def _changed_meanwhile(model: str, record: ModelRecord, store: Store) -> Problem:
    last = record.history[-1] if record.history else None
    return CHANGED_MEANWHILE.problem(
        what=f"{model!r} was changed meanwhile to {', '.join(record.current.values())}",
        where=store.repository.manifest_url,
        why=f"{last.by} changed it: {last.how}" if last else "another publisher changed it",
        fix=f"check `fleet history {model}`, then roll back again if necessary",
    )
