"""`fleet promote`: give another repository, of any account and region, the artifacts that were tested in one.

The bytes are copied, never built again: each artifact is read with the digest that the source's manifest
records, and written as `fleet publish` writes it. The manifest comes last, in one write for all models, so an
interrupted promotion has changed either all names or none. The next one copies what is missing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from triton_models.artifact.pack.pack import Artifact
from triton_models.artifact.plans import is_rehearsal, refused
from triton_models.artifact.targets import ANY, ArtifactTarget
from triton_models.base import options as opt
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.base.outcome import JsonReady
from triton_models.repository.manifest import Change, Manifest, Publication, Repository, request_name
from triton_models.repository.objects import Store, opened
from triton_models.repository.publish import make_current, recorded_artifact
from triton_models.repository.s3 import S3Client, aws_errors, in_parallel, publisher
from triton_models.repository.stored_manifest import read
from triton_models.repository.tested import ArtifactsTested
from triton_models.repository.upload import PART_BYTES, missing, upload
from triton_models.repository.watch import Watch, watch_from_options

NOTHING_TO_PROMOTE = Check(id="nothing-to-promote", source=FROM_ARGUMENTS)
SAME_REPOSITORY = Check(id="same-repository", source=FROM_ARGUMENTS)

# The artifacts that are on this machine's disk at a time have about this size together, or are one.
_BATCH_BYTES = 2 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion(JsonReady):
    """The promotion of a model on one target."""

    model: str
    target: ArtifactTarget
    artifact: str
    before: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promoted(JsonReady):
    """The outcome of `fleet promote`.

    Attributes:
        copied: The artifacts that were copied, or would be.
        run: The id for `fleet rollback --run`; None if no name has moved.
        watched_s: The time for which no alarm fired; None without a watch.
    """

    source: str
    repository: str
    promotions: tuple[Promotion, ...]
    copied: tuple[str, ...]
    dry_run: bool = False
    run: str | None = None
    watched_s: float | None = None

    def lines(self) -> Iterator[str]:
        """Yield one line per model and target."""
        for each in self.promotions:
            name = each.model if each.target == ANY else f"{each.model} on {each.target}"
            copied = "copied" if each.artifact in self.copied else "already there"
            was = "unchanged" if each.before == each.artifact else f"was {each.before or 'not published'}"
            yield f"{name} -> {self.repository}{each.artifact} ({copied}, {was})"
        if self.dry_run:
            yield "Nothing was changed: omit --dry-run to promote."
        if self.run:
            yield f"To take it back: fleet rollback --run {self.run} --repository {self.repository}"
        if self.watched_s is not None:
            yield f"No alarm fired for {self.watched_s:.0f} s."


@dataclass(frozen=True, kw_only=True)
class PromoteOptions(opt.AccountOptions):
    """Options of `fleet promote`."""

    names: Sequence[opt.Name] = opt.argument("the models", nargs="*", within=opt.ONE)
    all: bool = opt.flag("promote every model", within=opt.ONE)
    only: opt.File | None = opt.option(
        "promote exactly the artifacts that were tested: FILE is of `fleet smoke --tested FILE`",
        within=opt.ONE,
    )
    source: opt.Url = opt.option(
        "the repository in which they were tested, s3://bucket/prefix/", "--from", required=True
    )
    to: opt.Url = opt.option("the repository that gets them, s3://bucket/prefix/", required=True)
    portable: bool = opt.flag(opt.PORTABLE)
    target: opt.Target | None = opt.option(
        "only the artifacts for this target, such as sm86-trt10.13.3 (default: for all)"
    )
    dry_run: bool = opt.flag("only list what would be copied")
    watch: opt.Duration | None = opt.option(
        "afterwards, read alarms for this time, such as 15m: if one fires, all names go back",
        within=opt.ALARMS,
    )
    alarms: Sequence[str] = opt.option(
        opt.ALARM_NAMES, nargs="+", default=(), metavar="ALARM", within=opt.ALARMS
    )
    endpoint: str | None = opt.option(opt.ALARM_ENDPOINT, within=opt.ALARMS)
    profile: opt.Name | None = opt.option(opt.PROFILE, within=opt.AWS)
    region: str | None = opt.option(opt.REGION, within=opt.AWS)
    from_profile: opt.Name | None = opt.option(
        "the AWS profile for the source (default: --profile)", within=opt.AWS
    )
    from_region: str | None = opt.option(
        "the AWS region of the source (default: --region)", within=opt.AWS, metavar="REGION"
    )


def run(options: PromoteOptions) -> Promoted:
    """Run `fleet promote (NAME... | --all | --only FILE) --from URL --to URL [--watch TIME]`."""
    watch = watch_from_options(
        seconds=options.watch, alarms=options.alarms, endpoint=options.endpoint, repository=options.to
    )
    with opened(options.source, profile=options.from_profile, region=options.from_region) as source:
        return promote(
            None if options.all or options.only else options.names,
            source=source.url,
            repository=options.to,
            source_s3=source.s3,
            portable=options.portable or is_rehearsal(),
            target=ArtifactTarget.parse(options.target) if options.target else None,
            only=ArtifactsTested.read(options.only) if options.only else None,
            dry_run=options.dry_run,
            watch=watch,
        )


def promote(
    models: Sequence[str] | None,
    *,
    source: str,
    repository: str,
    source_s3: S3Client | None = None,
    s3: S3Client | None = None,
    portable: bool = False,
    target: ArtifactTarget | None = None,
    only: ArtifactsTested | None = None,
    by: str | None = None,
    part_bytes: int = PART_BYTES,
    dry_run: bool = False,
    watch: Watch | None = None,
) -> Promoted:
    """Copy the current artifacts of models from one repository to another, and make them current there.

    Portable artifacts are for a repository that no endpoint on AWS serves. With a target, only the artifacts
    that are current for it are promoted, and with `only` those that were tested and no others. With a watch,
    alarms are read before and after that, and all names go back if one fires.
    """
    if watch is not None:
        watch.begin()
    with opened(source, source_s3) as from_:
        if from_.repository == Repository.parse(repository):
            raise SAME_REPOSITORY.error(
                what=f"both repositories are {from_.url}",
                where="fleet promote --from URL --to URL",
                why="a promotion copies from one stage to the next",
                fix="give the RepositoryUrl outputs of two stages",
            )
        published = read(from_).manifest
    if only is None:
        publications = _publications(published, published.names if models is None else models, target)
    else:
        raise_if_any(only.problems(published, from_.repository))
        publications = _publications(published, list(only.artifacts), target, tested=set(only.names))
    with opened(repository, s3) as to, tempfile.TemporaryDirectory(prefix="fleet-promote-") as folder:
        if not portable:
            stand_ins = (each.artifact for each in publications if each.record.portable)
            raise_if_any(refused(stand_ins, repository=to.url))
        stored = read(to)
        artifacts = [
            recorded_artifact(each.model, each.artifact, each.record, Path(folder, str(number)))
            for number, each in enumerate({each.artifact: each for each in publications}.values())
        ]
        before: Manifest = stored.manifest
        run: str | None = None
        author = f"{publisher() if by is None else by}, from {from_.url}"

        def moved(manifest: Manifest, wanted: Sequence[Publication], *, at: datetime, by: str) -> Manifest:
            nonlocal before, run
            new = manifest.with_promoted(wanted, at=at, by=by)
            if watch is not None and run is None:
                watch.begin()  # again, because copying may have taken long
            # An unchanged manifest may have the change of an attempt whose response was lost.
            made = run if new is manifest else Change(artifact="", how="publish", at=at, by=by).run
            histories = (new.model(each.model).history for each in wanted)
            run = made if any(change.run == made for each in histories for change in each) else None
            if run is None or new is not manifest:
                before = manifest
            return new

        if dry_run:
            copied = {each.name for each in missing(artifacts, stored.manifest, to)}
        else:
            _copy_requests({each.record.request for each in publications if each.record.request}, from_, to)
            send = partial(_copied, source=from_, to=to, part_bytes=part_bytes)
            copied, _ = make_current(publications, artifacts, to, stored, send=send, by=author, change=moved)
            if watch is not None and run is not None:
                watch.follow(run, to, by=author)
    return Promoted(
        source=from_.url,
        repository=to.url,
        promotions=tuple(_promotions(publications, before)),
        copied=tuple(each.name for each in artifacts if each.name in copied),
        dry_run=dry_run,
        run=run,
        watched_s=watch.seconds if watch is not None and run is not None else None,
    )


def _publications(
    published: Manifest,
    models: Iterable[str],
    target: ArtifactTarget | None,
    *,
    tested: Collection[str] | None = None,
) -> list[Publication]:
    """Return the current artifacts of models, the wider targets first: a later publication overrides them."""
    found: list[Publication] = []
    problems: list[Problem] = []
    for name in dict.fromkeys(models):
        try:
            record = published.model(name)
            current = dict(record.current)
            if target is not None:
                current = {target: published.target_model(name, target)}
        except FleetError as error:
            problems.extend(error.problems)
            continue
        for each, artifact in sorted(current.items(), key=lambda item: (-item[0].width, str(item[0]))):
            if tested is not None and artifact not in tested:
                continue
            kept = record.artifacts[artifact]
            found.append(Publication(model=name, artifact=artifact, record=kept, target=each))
    raise_if_any(problems)
    if not found:
        what, fix = "there is no model to promote", "publish and test them there first"
        raise NOTHING_TO_PROMOTE.error(what=what, where=published.where, fix=fix)
    return found


def _copied(absent: Sequence[Artifact], *, source: Store, to: Store, part_bytes: int) -> list[str]:
    """Copy artifacts by way of this machine's disk, a batch at a time."""

    def download(artifact: Artifact) -> str | None:
        with artifact.path.open("xb") as file:
            return source.digest(artifact.name, into=file)

    sent: list[str] = []
    for batch in _batches(absent):
        with aws_errors(source.url):
            digests = in_parallel(download, batch)
        raise_if_any(
            source.not_as_recorded(each.name, sha256=each.sha256, found=digest)
            for each, digest in zip(batch, digests, strict=True)
            if digest != each.sha256
        )
        sent += upload(batch, to, part_bytes=part_bytes)
        for each in batch:
            each.path.unlink()
    return sent


def _batches(artifacts: Iterable[Artifact]) -> Iterator[list[Artifact]]:
    batch: list[Artifact] = []
    for each in artifacts:
        if batch and sum(other.size for other in batch) + each.size > _BATCH_BYTES:
            yield batch
            batch = []
        batch.append(each)
    if batch:
        yield batch


def _copy_requests(digests: Collection[str], source: Store, to: Store) -> None:
    """Copy the requests that the records name."""

    def copy(wanted: str) -> None:
        with tempfile.TemporaryFile() as file:
            with aws_errors(source.url):
                digest = source.digest(request_name(wanted), into=file)
            if digest == wanted:  # it belongs to an artifact, which is served without it as well
                file.seek(0)
                to.put_request(file.read())

    in_parallel(copy, sorted(digests))


def _promotions(publications: Iterable[Publication], before: Manifest) -> Iterator[Promotion]:
    for each in publications:
        target = each.target or ANY
        model = before.find(each.model)
        yield Promotion(
            model=each.model,
            target=target,
            artifact=each.artifact,
            before=model.on(target) if model is not None else None,
        )
