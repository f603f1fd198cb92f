"""`fleet smoke`: send every declared example to a deployed fleet, and compare the answers with the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.errors import FleetError
from triton_models.base.outcome import progress
from triton_models.base.tables import output_width
from triton_models.client import Client
from triton_models.declare.reading import with_members
from triton_models.repository.manifest import Manifest
from triton_models.repository.objects import opened
from triton_models.repository.stored_manifest import read
from triton_models.repository.tested import ArtifactsTested
from triton_models.spec import ModelDefinition, forms_of, load_builds, model_names
from triton_rehearsal.options import SmokeOptions
from triton_rehearsal.rehearse.predictions import Prediction, predict
from triton_rehearsal.rehearse.result import counted, prediction_reasons, prediction_table


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeResult:
    """The answers of a deployed fleet."""

    endpoint: str
    predictions: tuple[Prediction, ...]

    @property
    def exit_code(self) -> int:
        """0 if every example was answered, and every answer matches its reference; without answers, 1."""
        return 0 if self.predictions and all(each.passed for each in self.predictions) else 1

    def as_dict(self) -> dict[str, Any]:
        """Return the answers as JSON-ready data."""
        return {
            "passed": self.exit_code == 0,
            "endpoint": self.endpoint,
            "predictions": [{**asdict(each), "passed": each.passed} for each in self.predictions],
        }

    def lines(self) -> Iterator[str]:
        """Yield the table of the answers, a summary, and the reasons of failures."""
        yield from prediction_table(self.predictions, output_width())
        verdict = "FAILED: " if self.exit_code else ""
        yield f"{verdict}{', '.join(counted(self.predictions)) or 'no examples'}, at {self.endpoint}."
        yield from prediction_reasons(self.predictions)


def run(options: SmokeOptions) -> SmokeResult:
    """Run `fleet smoke [NAME...] [--tested FILE]`. A model that fails does not stop the others."""
    with opened(options.repository) as store:
        client = Client(alias=options.alias, repository=store.url)
        manifest = read(store).manifest
    names = with_members(options.names, options.models)
    builds = load_builds(names, options.models) or _published(manifest, options.models)
    if not builds:
        raise _nothing(store.url)
    endpoint, target = client.endpoint_name, client.target
    predictions: list[Prediction] = []
    for build in builds:
        progress(f"asking {build.name}")
        predictions += (
            replace(each, precision=_precision(each, manifest))
            for each in predict(build, client, on_gpu=True)
        )
    result = SmokeResult(endpoint=endpoint, predictions=tuple(predictions))
    if options.tested is not None:
        with opened(store.url, store.s3) as store:
            manifest = read(store).manifest
        artifacts_of(result, manifest, repository=store.url, target=target).write(options.tested)
    return result


def _precision(made: Prediction, manifest: Manifest) -> str:
    record = manifest.record(model=made.model, artifact=made.artifact)
    return record.evidence.precision if record else ""


def artifacts_of(
    result: SmokeResult, manifest: Manifest, *, repository: str, target: ArtifactTarget | None
) -> ArtifactsTested:
    """Return the artifacts that answered. A name that moved meanwhile fails the test."""
    artifacts: dict[str, str] = {}
    passed = result.exit_code == 0
    for each in result.predictions:
        record = manifest.record(model=each.model, artifact=each.artifact)
        if record is None or artifacts.setdefault(each.model, record.sha256) != record.sha256:
            passed = False
    return ArtifactsTested(repository=repository, target=target, artifacts=artifacts, passed=passed)


def _published(manifest: Manifest, models: Path | None) -> Sequence[ModelDefinition]:
    """Return every declaration, form of one and member of a family that is published."""
    published = frozenset(manifest.names)
    names = [each for folder in model_names(models) for each in forms_of(folder, models)]
    return [each for each in load_builds(with_members(names, models), models) if each.name in published]


def _nothing(repository: str) -> FleetError:
    return FleetError.of(
        what="none of the declared models is published",
        where=repository,
        why="an endpoint without a model proves nothing",
        fix="wait for the build, or promote models to this repository",
        rule="nothing-published",
    )
