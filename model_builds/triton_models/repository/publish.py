"""`fleet publish`: upload artifacts to a model repository, and make them current.

An object is written only if its key is free, so objects are never overwritten. The manifest is written last,
and only if it has not changed since it was read, so publishers do not undo each other's work. An interrupted
publication has changed either all names or none; the next one uploads the missing artifacts and continues.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from triton_models.artifact.layout import (
    ANSWER,
    REQUEST,
    TOLERANCE,
    Layout,
    digest_of_artifact,
    model_name,
    read_layout,
)
from triton_models.artifact.pack.pack import Artifact
from triton_models.artifact.plans import is_portable, is_rehearsal, refused, tensorrt_versions
from triton_models.artifact.profile import Profile
from triton_models.artifact.targets import ArtifactTarget
from triton_models.base import options as opt
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.base.files import file_digest
from triton_models.base.outcome import JsonReady
from triton_models.check.check import check_layout
from triton_models.check.estimate import of_layout
from triton_models.declare.declaration import Trial
from triton_models.repository.manifest import PARTS, ArtifactRecord, Manifest, Publication, Share
from triton_models.repository.objects import Store, opened
from triton_models.repository.s3 import S3Client, all_in_parallel, in_parallel, publisher
from triton_models.repository.stored_manifest import StoredManifest, read, update
from triton_models.repository.upload import PART_BYTES, missing, upload

PUBLICATION_TARGET = Check(id="publication-target", source=FROM_ARGUMENTS)
BEING_DELETED = Check(id="being-deleted", source=FROM_ARGUMENTS)
CANDIDATE = Check(id="candidate", source=FROM_ARGUMENTS)
ONE_ARTIFACT = Check(id="one-artifact", source=FROM_ARGUMENTS)

_REHEARSED = "estimated: a rehearsal measures nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published(JsonReady):
    """The outcome of `fleet publish`.

    Attributes:
        present: The artifacts that were already present with the same content.
        targets: The current target model of each model, by name, or its candidate.
        unchanged: The models whose current target model has not changed.
        candidates: The models whose target model here is a candidate.
        precisions: The precision of each artifact that has a record of its build, by model.
    """

    repository: str
    uploaded: tuple[str, ...]
    present: tuple[str, ...]
    targets: dict[str, str]
    unchanged: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    precisions: Mapping[str, str] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """Yield one line per model."""
        uploaded = set(self.uploaded)
        for model, target in sorted(self.targets.items()):
            how = "uploaded" if target in uploaded else "already there"
            arrow = "has the candidate" if model in self.candidates else "->"
            about = f", {self.precisions[model]}" if model in self.precisions else ""
            yield f"{model} {arrow} {self.repository}{target} ({how}{about})"


def publish(
    artifacts: Iterable[Artifact],
    *,
    repository: str,
    s3: S3Client | None = None,
    portable: bool = False,
    by: str | None = None,
    part_bytes: int = PART_BYTES,
    inputs: Mapping[str, Mapping[str, str]] | None = None,
    target: ArtifactTarget | None = None,
    requests: Mapping[str, bytes] | None = None,
    profiles: Mapping[str, Profile] | None = None,
    trials: Mapping[str, Trial] | None = None,
    examples: Mapping[str, int] | None = None,
) -> Published:
    """Upload artifacts, and make each its model's current one.

    Artifacts that are already present with the same content are not uploaded again. The manifest is written
    last, so a model's name never refers to a missing object.

    Portable artifacts are for a repository that no endpoint on AWS serves. `examples` are the numbers of
    examples on which models answered as their sources do. Of a model without inputs, a request, a profile or
    such a number, those recorded for an artifact that is already present are kept. The artifacts
    become current on the target, by default on all that they run on. With a trial of its model, a second
    version becomes the candidate instead, which gets a share of the requests of this project's clients.
    """
    wanted = tuple(artifacts)
    inputs, requests, profiles, examples = inputs or {}, requests or {}, profiles or {}, examples or {}
    digests = {model: hashlib.sha256(each).hexdigest() for model, each in requests.items()}
    with opened(repository, s3) as store:
        # Read before any upload, to detect a wrong bucket or missing credentials early.
        stored = read(store)
        publications = [
            Publication(
                model=artifact.model,
                artifact=artifact.name,
                record=replace(
                    record,
                    inputs=inputs.get(artifact.model, record.inputs),
                    request=digests.get(artifact.model, record.request),
                    profile=profiles.get(artifact.model, record.profile),
                    examples=examples.get(artifact.model, record.examples),
                ),
                target=target,
            )
            for artifact, record in zip(wanted, records(wanted, stored.manifest), strict=True)
        ]
        if not portable:
            stand_ins = (each.artifact for each in publications if each.record.portable)
            raise_if_any(refused(stand_ins, repository=store.url))
        raise_if_any(_not_for_their_target(publications))
        change: Callable[..., Manifest] = Manifest.with_published
        if trials:
            change = partial(_with_candidates, trials=trials, where=store.repository.manifest_url)
            change(stored.manifest, publications, at=stored.at, by="")  # refuse before anything is uploaded
        in_parallel(store.put_request, requests.values())
        send = partial(upload, store=store, part_bytes=part_bytes)
        sent, before = make_current(publications, wanted, store, stored, send=send, by=by, change=change)
    return Published(
        repository=store.url,
        uploaded=tuple(each.artifact for each in publications if each.artifact in sent),
        present=tuple(each.artifact for each in publications if each.artifact not in sent),
        targets={each.model: each.artifact for each in publications},
        unchanged=tuple(each.model for each in publications if _is_current(each, before)),
        candidates=tuple(
            each.model for each in publications if trials and _is_tried(each, trials, before.manifest)
        ),
        precisions={each.model: each.record.evidence.precision for each in publications if each.record.build},
    )


@dataclass(frozen=True, kw_only=True)
class PublishOptions(opt.RepositoryOptions):
    """Options of `fleet publish`."""

    artifacts: Sequence[opt.AnyPath] = opt.argument(
        "a .tar.gz that `fleet pack` wrote", "ARTIFACT", nargs="+"
    )
    portable: bool = opt.flag(opt.PORTABLE)
    target: opt.Target | None = opt.option(
        "make them current for this target only, such as sm86-trt10.13.3 (default: all that they run on)"
    )
    share: opt.Share | None = opt.option(
        "give them a share of their models' requests instead, such as 5%%: see `fleet rollout`",
        within=opt.EITHER,
    )
    shadow: opt.Share | None = opt.option(opt.SHADOW, within=opt.EITHER)
    tolerance: float | None = opt.option(opt.TOLERANCE, type=float, metavar="NUMBER")


def run(options: PublishOptions) -> Published:
    """Run `fleet publish ARTIFACT... [--repository URL] [--portable] [--target TARGET]`."""
    target = ArtifactTarget.parse(options.target) if options.target else None
    portable = options.portable or is_rehearsal()
    with opened(options.repository) as store:
        artifacts = read_artifacts(options.artifacts, read(store).manifest)
    trial = trial_of(share=options.share, shadow=options.shadow, tolerance=options.tolerance)
    return publish(
        artifacts,
        repository=store.url,
        s3=store.s3,
        portable=portable,
        target=target,
        trials={each.model: trial for each in artifacts} if trial else None,
    )


def trial_of(*, share: float | None, shadow: float | None, tolerance: float | None) -> Trial | None:
    """Return what --share, or --shadow and --tolerance, give to a candidate; None without either."""
    if tolerance is not None and shadow is None:
        fix = "give --shadow as well, such as --shadow 5%"
        raise CANDIDATE.error(what="no answers are compared", where="--tolerance", fix=fix)
    if share is not None:
        return Trial(share=share)
    if shadow is not None:
        return Trial(share=shadow, shadow=True, tolerance=tolerance)
    return None


def share_of(trial: Trial, wanted: Publication) -> Share:
    """Return what a candidate gets.

    Raises:
        FleetError: It is no request at all, or each of them, or a shadow has no tolerance.
    """
    parts = round(trial.share * PARTS)
    if not parts or not trial.is_possible:
        raise CANDIDATE.error(
            what=f"a share of {trial.share:.4%}",
            where="the candidate",
            fix="give more than 0 and less than 100 %, such as --share 5%, or publish it without a share",
        )
    if not trial.shadow:
        return Share(parts=min(parts, PARTS - 1))
    tolerance = wanted.record.build.get(TOLERANCE) if trial.tolerance is None else trial.tolerance
    if not isinstance(tolerance, int | float) or not 0 <= tolerance < math.inf:
        raise CANDIDATE.error(
            what=f"the tolerance is {'not recorded' if tolerance is None else tolerance}",
            where=f"the shadow {wanted.artifact}",
            why="answers of two versions are seldom equal to the last bit",
            fix="give the largest difference, such as --tolerance 1e-3, or declare it in build.py",
        )
    return Share(how="shadow", parts=parts, tolerance=float(tolerance))


def _with_candidates(
    manifest: Manifest,
    publications: Sequence[Publication],
    *,
    trials: Mapping[str, Trial],
    where: str,
    at: datetime,
    by: str,
) -> Manifest:
    """Return a manifest with candidates, and with the publications of models without a trial or a version."""
    wanted = {each.model: each for each in publications if _is_tried(each, trials, manifest)}
    raise_if_any(problem for each in wanted.values() for problem in _not_a_candidate(each, manifest, where))
    rest = [each for each in publications if each.model not in wanted]
    manifest = manifest.with_published(rest, at=at, by=by) if rest else manifest
    for model, each in wanted.items():
        manifest = manifest.with_candidate(each, share=share_of(trials[model], each), at=at, by=by)
    return manifest


def _is_tried(wanted: Publication, trials: Mapping[str, Trial], manifest: Manifest) -> bool:
    """Return whether an artifact becomes a candidate: its model has a trial, and another version."""
    record = manifest.find(wanted.model)
    current = () if record is None else record.current.values()
    return wanted.model in trials and bool(current) and wanted.artifact not in current


def _not_a_candidate(wanted: Publication, manifest: Manifest, where: str) -> Iterator[Problem]:
    """Yield why an artifact cannot get a share of its model's requests."""
    report, record = Report(where), manifest.model(wanted.model)
    candidate = record.candidate
    if candidate is not None and candidate.artifact != wanted.artifact:
        report(
            CANDIDATE,
            f"{wanted.model!r} has a candidate already: {candidate.artifact}",
            fix=f"end its roll-out first: `fleet rollout {wanted.model} --promote`, or --return",
        )
    for target, name in record.current.items():
        if not wanted.record.runs_on(target):
            continue
        for topic in (REQUEST, ANSWER):
            was, new = (each.build.get(topic) for each in (record.artifacts[name], wanted.record))
            if was != new and was is not None and new is not None:
                report(
                    CANDIDATE,
                    f"{wanted.artifact} has another {topic} than {name}: {new}, not {was}",
                    why="a caller does not know which of the two answers",
                    fix="publish it as a model of another name",
                )
    yield from report.problems


def make_current(
    publications: Sequence[Publication],
    artifacts: Sequence[Artifact],
    store: Store,
    stored: StoredManifest,
    *,
    send: Callable[[Sequence[Artifact]], Iterable[str]],
    by: str | None = None,
    change: Callable[..., Manifest] = Manifest.with_published,
) -> tuple[set[str], StoredManifest]:
    """Send the artifacts that are missing, then let their names refer to them, in one write."""
    sent: set[str] = set()
    author = publisher() if by is None else by

    def current(stored: StoredManifest) -> Manifest:
        deleting = sorted({artifact.name for artifact in artifacts} & stored.manifest.deleting.keys())
        if deleting:
            raise BEING_DELETED.error(
                what=f"`fleet prune` is deleting {', '.join(deleting)}",
                where=store.repository.manifest_url,
                why="its name would refer to an object about to be deleted",
                fix="publish again afterwards; if the run was interrupted, run `fleet prune --resume` first",
            )
        # In each round, after reading the manifest: `fleet prune` may have deleted an artifact before that.
        # If it starts after that, the manifest has changed by the time it is to be replaced.
        sent.update(send(missing(artifacts, stored.manifest, store)))
        return change(stored.manifest, publications, at=stored.at, by=author)

    return sent, update(current, store, stored=stored)


def _is_current(wanted: Publication, stored: StoredManifest) -> bool:
    model = stored.manifest.find(wanted.model)
    return model is not None and all(model.on(target) == wanted.artifact for target in wanted.targets)


def _not_for_their_target(publications: Iterable[Publication]) -> Iterator[Problem]:
    for each in publications:
        if each.target is not None and not each.record.runs_on(each.target):
            yield PUBLICATION_TARGET.problem(
                what=f"{each.artifact} runs on {', '.join(map(str, each.record.targets))}",
                where="the target to publish for",
                why="an endpoint of that target would answer every request with an error",
                fix=f"build it for {each.target}, or omit the target",
            )


def read_artifacts(paths: Sequence[Path], manifest: Manifest) -> list[Artifact]:
    """Read artifacts from files.

    An artifact in the manifest is only hashed, because its content was checked at publication.
    """
    return all_in_parallel(lambda path: _recorded(path, manifest) or Artifact.read(path), paths)


def records(artifacts: Sequence[Artifact], manifest: Manifest) -> list[ArtifactRecord]:
    """Check artifacts, and return their records for the manifest."""
    raise_if_any(_of_one_model(artifacts))
    return all_in_parallel(partial(_record, manifest=manifest), artifacts)


def _recorded(path: Path, manifest: Manifest) -> Artifact | None:
    model = model_name(path)
    record = manifest.record(model=model, artifact=path.name)
    if record is None:
        return None
    try:
        same = path.stat().st_size == record.size and file_digest(path) == record.sha256
    except OSError:
        return None  # the next reader reports the error
    if not same:
        return None
    return recorded_artifact(model, path.name, record, path)


def recorded_artifact(model: str, name: str, record: ArtifactRecord, path: Path) -> Artifact:
    """Return an artifact as the manifest records it, whose file is at a path."""
    return Artifact(
        model=model,
        digest=digest_of_artifact(name),
        path=path,
        size=record.size,
        sha256=record.sha256,
        build=dict(record.build),
    )


def _record(artifact: Artifact, *, manifest: Manifest) -> ArtifactRecord:
    known = manifest.record(model=artifact.model, artifact=artifact.name)
    same = known is not None and (known.size, known.sha256) == (artifact.size, artifact.sha256)
    if known is not None and same and known.profile is not None:
        return known
    layout = read_layout(artifact.path)
    if known is not None and same:
        return replace(known, profile=_estimated(layout))
    raise_if_any(check_layout(layout))
    return ArtifactRecord(
        size=artifact.size,
        sha256=artifact.sha256,
        build=artifact.build,
        plans=tensorrt_versions(layout),
        portable=is_portable(layout),
        profile=_estimated(layout),
    )


def _estimated(layout: Layout) -> Profile | None:
    """Return what a model needs by its files; None if nothing is known about its backend."""
    try:
        profile = of_layout(layout)
    except FleetError:
        return None
    if is_rehearsal() and not profile.memory.is_unknown:
        return replace(profile, memory=replace(profile.memory, source=_REHEARSED))
    return profile


def _of_one_model(artifacts: Iterable[Artifact]) -> Iterator[Problem]:
    by_model: dict[str, set[str]] = defaultdict(set)
    for artifact in artifacts:
        by_model[artifact.model].add(artifact.name)
    for model, names in by_model.items():
        if len(names) > 1:
            yield ONE_ARTIFACT.problem(
                what=f"the model {model!r} has {len(names)} artifacts: {', '.join(sorted(names))}",
                where="the artifacts to publish",
                why="the model's name can refer to only one of them",
                fix="publish them one after the other, so that the last one becomes current",
            )
