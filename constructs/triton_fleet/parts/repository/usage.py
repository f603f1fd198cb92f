"""The publishers and endpoints of a repository, recorded as they are declared and compared at synthesis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.repository.checks import same_gpu
from triton_fleet.parts.repository.portability_checks import PlanTarget, endpoint_fits
from triton_models.artifact.layout import model_name
from triton_models.base.checks import Report
from triton_models.declare.reading import FORM_MARK
from triton_models.facts.instances import InstanceType
from triton_models.facts.releases import Release

_UNKNOWN = "any of its models"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltModel:
    """A model that a build job makes.

    Attributes:
        asked: As the job was asked for it: a folder, or `folder:form`.
        name: The name that it is published under.
        target: The hardware and release that it needs.
    """

    asked: str
    name: str
    target: PlanTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModels:
    """The models that some instance types of an endpoint load.

    Attributes:
        types: The instance types.
        release: The release that they run.
        path: The endpoint.
        where: The place that problems name.
        artifact: The only artifact; None for every model of the repository.
        plugins: The libraries of TensorRT plugins that the server opens.
        completes: The server completes configurations.
        pool: The server's pool on each GPU in MiB; None if it is unknown, or without a GPU.
    """

    types: tuple[InstanceType, ...]
    release: Release
    path: str
    where: str
    artifact: str | None = None
    plugins: tuple[str, ...] = ()
    completes: bool = False
    pool: float | None = None

    @property
    def targets(self) -> list[PlanTarget]:
        """The targets of the instance types."""
        return [
            PlanTarget(
                gpu=each.gpu,
                release=self.release,
                path=self.path,
                plugins=self.plugins,
                completes=self.completes and self.artifact is None,
                strict=not self.completes,
                pool=self.pool,
            )
            for each in self.types
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """The origin of an artifact that is known only at deployment."""

    job: str
    asked: str


class RepositoryUsage:
    """The build jobs and endpoints of a repository."""

    def __init__(self) -> None:
        self._builds: list[Callable[[], Iterable[BuiltModel]]] = []
        self._sequences: list[Callable[[], Iterable[str]]] = []
        self._served: list[ServedModels] = []
        self._artifacts: dict[str, _Made] = {}

    def note_build(
        self, models: Callable[[], Iterable[BuiltModel]], *, sequences: Callable[[], Iterable[str]]
    ) -> None:
        """Note a build job, by what finds its models, and the folders of those with sequence batching."""
        self._builds.append(models)
        self._sequences.append(sequences)

    def note_artifact(self, artifact: str, *, job: str, asked: str) -> None:
        """Note an artifact that is known only at deployment, by the path of its build job and the model."""
        self._artifacts[artifact] = _Made(job=job, asked=asked)

    def note_served(self, served: ServedModels) -> None:
        """Note what instances of an endpoint load."""
        self._served.append(served)

    def misfits(self, report: Report) -> None:
        """Report why endpoints could not load the published models. It reads declarations."""
        built = [each for find in self._builds for each in find()] if self._served else []
        for served in self._served:
            place = Report(served.where)
            models = self._models_of(served, built) if self._builds else None
            if models is not None:
                endpoint_fits(place, models=models, endpoint=served.targets)
            else:
                first, *others = served.types  # someone else publishes: the artifact is not known
                for other in others:
                    same_gpu(place, first, other)
            report.add(place.problems)

    def sequence_models(self, artifacts: Iterable[str] | None = None) -> tuple[str, ...]:
        """The folders of models with sequence batching."""
        folders = dict.fromkeys(name for find in self._sequences for name in find())
        if artifacts is None:
            return tuple(folders)
        of = [self._folder_of(each) for each in artifacts]
        return tuple(folder for folder in folders if any(_is_of(name, folder) for name in of))

    def _models_of(
        self, served: ServedModels, built: Sequence[BuiltModel]
    ) -> Mapping[str, Sequence[PlanTarget]] | None:
        """Return the served models as the build jobs make them; None if no job does."""
        artifact = served.artifact
        if artifact is None:
            return _by_name(built)
        made = self._artifacts.get(artifact)
        if made is not None:
            return _by_name(
                each for each in built if (each.target.path, each.asked) == (made.job, made.asked)
            )
        if known(artifact) is None:
            return {_UNKNOWN: [each.target for each in built]}
        return _by_name(each for each in built if each.name == model_name(Path(artifact))) or None

    def _folder_of(self, artifact: str) -> str:
        """Return the name of an artifact without its digest: the folder of its model, or that with a form."""
        made = self._artifacts.get(artifact)
        if made is not None:
            return made.asked.partition(FORM_MARK)[0]
        return "" if known(artifact) is None else model_name(Path(artifact))


def _by_name(built: Iterable[BuiltModel]) -> dict[str, list[PlanTarget]]:
    found: dict[str, list[PlanTarget]] = {}
    for each in built:
        found.setdefault(each.name, []).append(each.target)
    return found


def _is_of(name: str, folder: str) -> bool:
    """Return whether a model belongs to a folder, itself or as a form called `<folder>_<form>`."""
    return name == folder or name.startswith(f"{folder}_")
