"""Artifacts on this machine, and the checks before their publication."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from triton_models.artifact.layout import ARCHIVE_SUFFIX, model_name, read_layout
from triton_models.artifact.plans import is_portable, tensorrt_versions
from triton_models.base.digests import file_digest
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.check.check import check_layout
from triton_models.pack.pack import Artifact
from triton_models.repository.manifest import ArtifactRecord, Manifest
from triton_models.repository.s3 import workers


def read_artifacts(paths: Sequence[Path], manifest: Manifest) -> list[Artifact]:
    """Read artifacts from files.

    An artifact in the manifest is only hashed, because its content was checked at publication.

    Raises:
        FleetError: Some files are not artifacts, or contradict their names; all are reported together.
    """
    artifacts: list[Artifact] = []
    problems: list[Problem] = []
    with workers() as pool:
        for found in pool.map(partial(_read, manifest=manifest), paths):
            if isinstance(found, Artifact):
                artifacts.append(found)
            else:
                problems.extend(found)
    raise_if_any(problems)
    return artifacts


def records(artifacts: Sequence[Artifact], manifest: Manifest) -> list[ArtifactRecord]:
    """Check artifacts, and return their records for the manifest.

    Raises:
        FleetError: `check` refuses artifacts, or a model has several; all problems are reported together.
    """
    problems = list(_of_one_model(artifacts))
    found: list[ArtifactRecord] = []
    with workers() as pool:
        for looked in pool.map(partial(_record, manifest=manifest), artifacts):
            if isinstance(looked, ArtifactRecord):
                found.append(looked)
            else:
                problems.extend(looked)
    raise_if_any(problems)
    return found


def _read(path: Path, *, manifest: Manifest) -> Artifact | tuple[Problem, ...]:
    try:
        return _recorded(path, manifest) or Artifact.read(path)
    except FleetError as error:
        return error.problems


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
    digest = path.name.removesuffix(ARCHIVE_SUFFIX).removeprefix(f"{model}-")
    build = dict(record.build)
    return Artifact(
        model=model, digest=digest, path=path, size=record.size, sha256=record.sha256, build=build
    )


def _record(artifact: Artifact, *, manifest: Manifest) -> ArtifactRecord | list[Problem]:
    try:
        known = manifest.record(model=artifact.model, artifact=artifact.name)
        if known is not None and (known.size, known.sha256) == (artifact.size, artifact.sha256):
            return known
        layout = read_layout(artifact.path)
        problems = check_layout(layout)
        return problems or ArtifactRecord(
            size=artifact.size,
            sha256=artifact.sha256,
            build=artifact.build,
            plans=tensorrt_versions(layout),
            portable=is_portable(layout),
        )
    except FleetError as error:
        return list(error.problems)


def _of_one_model(artifacts: Iterable[Artifact]) -> Iterator[Problem]:
    by_model: dict[str, set[str]] = defaultdict(set)
    for artifact in artifacts:
        by_model[artifact.model].add(artifact.name)
    for model, names in by_model.items():
        if len(names) > 1:
            yield Problem(
                what=f"the model {model!r} has {len(names)} artifacts: {', '.join(sorted(names))}",
                where="the artifacts to publish",
                why="the model's name can refer to only one of them",
                fix="publish them one after the other, so that the last one becomes current",
                rule="one-artifact",
            )
