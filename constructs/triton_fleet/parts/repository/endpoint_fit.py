"""The publishers and endpoints of a repository, recorded as they are declared and compared at synthesis.

A name refers to one artifact per target, so that build jobs for several GPUs or releases share a repository.
All instance types of an endpoint load the artifacts of one of these jobs.

- A TensorRT plan loads only with the same TensorRT and on the same GPU model, or on the GPUs that `hardware`
  declares, and never without a GPU. On another GPU model of the same compute capability, TensorRT warns.
- A DALI pipeline of a build for GPUs needs any GPU, and a DALI that is not older.
- ONNX and Python models run on any hardware, and so does everything that is built for types without a GPU.
- Packages next to a Python model are built for one version of Python, that of the release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from triton_fleet.parts.arguments.tokens import known
from triton_models.artifact.forest_head import FIRST_WITH_ALL_FUNCTIONS
from triton_models.artifact.layout import model_name
from triton_models.artifact.targets import runs_on
from triton_models.base.checks import Check, Report
from triton_models.base.errors import Problem
from triton_models.base.suggest import some_of
from triton_models.declare.reading import FORM_MARK
from triton_models.facts.dali import loads_pipelines_of
from triton_models.facts.instances import Gpu, InstanceType
from triton_models.facts.releases import Release
from triton_models.facts.tensorrt import LEVELS

# For models without a plan: instance groups and the version of Python.
PLAN_FITS_ENDPOINT = Check(
    id="plan-fits-endpoint",
    source=(
        "2026-11-21: https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/advanced.html"
        " https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_configuration.md"
        " https://github.com/triton-inference-server/python_backend"
    ),
)
PLUGINS_OPENED = Check(
    id="tensorrt-plugins",
    source="2026-11-24: https://github.com/triton-inference-server/tensorrt_backend/blob/main/src/tensorrt.cc",
)
FORESTS_FIT_RELEASE = Check(
    id="forests-fit-release",
    source="2026-11-24: https://github.com/rapidsai/cuml/blob/branch-25.04/cpp/src/fil/treelite_import.cu",
)
FITS_POOL = Check(
    id="fits-pool",
    source=(
        "2026-11-25: https://github.com/triton-inference-server/core/blob/main/src/cuda_memory_manager.cc"
        " https://github.com/triton-inference-server/server/issues/8177"
    ),
)
AUTO_COMPLETE = Check(
    id="auto-complete",
    source="2026-11-21: https://github.com/triton-inference-server/core/blob/main/src/model_config_utils.cc",
)
PLAN_AUTO_COMPLETE = Check(
    id="plan-auto-complete",
    source=(
        "2026-11-25:"
        " https://github.com/triton-inference-server/tensorrt_backend/blob/main/src/model_state.cc"
        " (AutoCompleteConfigHelper) and https://github.com/kshitizgupta21/triton-mme-gtc23 (mme.ipynb, blob"
        " bf2aef49b7, cells 54 and 63)"
    ),
)

INSTANCE_POOLS = Check(
    id="instance-pools",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-heterogeneous.html",
)

_UNKNOWN = "any of its models"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTarget:
    """The hardware and release that an artifact needs, or that an endpoint has."""

    gpu: Gpu | None  # None without a GPU, and so without a plan
    release: Release
    path: str  # the construct that compiles plans, or loads them
    plugins: tuple[str, ...] = ()  # that plans need; of an endpoint, those that its server opens
    # The MiB of the pool on a GPU that the model needs; of an endpoint, its server's, or None if unknown.
    pool: float | None = None
    # Of a build job alone.
    plans: tuple[str, ...] = ("this-gpu",)  # the hardware of each, as `TensorRt` says it
    environments: bool = False  # the model carries a Python environment
    pipelines: bool = False  # the model has a DALI pipeline
    any_gpu: bool = False  # the model needs a GPU of any kind
    completed: bool = False  # the server completes the model's configurations
    forests: bool = False  # the model has forests that may run on a GPU
    # Of an endpoint alone.
    completes: bool = False  # the server completes configurations and serves many models
    strict: bool = False  # the server does not complete configurations


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltModel:
    """A model that a build job makes."""

    asked: str  # as the job was asked for it: a folder, or `folder:form`
    name: str  # under which it is published
    target: PlanTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModels:
    """The models that some instance types of an endpoint load."""

    types: tuple[InstanceType, ...]
    release: Release
    path: str  # of the endpoint
    where: str  # in problems
    artifact: str | None = None  # the only one; None for every model of the repository
    plugins: tuple[str, ...] = ()  # that the server opens
    completes: bool = False  # the server completes configurations
    pool: float | None = None  # on each GPU in MiB; None if it is unknown, or without a GPU

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


class RepositoryUsage:
    """The build jobs and endpoints of a repository."""

    def __init__(self) -> None:
        self._builds: list[Callable[[], Iterable[BuiltModel]]] = []
        self._sequences: list[Callable[[], Iterable[str]]] = []
        self._served: list[ServedModels] = []
        self._artifacts: dict[str, tuple[str, str]] = {}  # job and model, of those known at deployment only

    def note_build(
        self, models: Callable[[], Iterable[BuiltModel]], *, sequences: Callable[[], Iterable[str]]
    ) -> None:
        """Note a build job, by what finds its models, and the folders of those with sequence batching."""
        self._builds.append(models)
        self._sequences.append(sequences)

    def note_artifact(self, artifact: str, *, job: str, asked: str) -> None:
        """Note an artifact that is known only at deployment, by the path of its build job and the model."""
        self._artifacts[artifact] = job, asked

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
            return _by_name(each for each in built if (each.target.path, each.asked) == made)
        if known(artifact) is None:
            return {_UNKNOWN: [each.target for each in built]}
        return _by_name(each for each in built if each.name == model_name(Path(artifact))) or None

    def _folder_of(self, artifact: str) -> str:
        """Return the name of an artifact without its digest: the folder of its model, or that with a form."""
        made = self._artifacts.get(artifact)
        if made is not None:
            return made[1].partition(FORM_MARK)[0]
        return "" if known(artifact) is None else model_name(Path(artifact))


def _by_name(built: Iterable[BuiltModel]) -> dict[str, list[PlanTarget]]:
    found: dict[str, list[PlanTarget]] = {}
    for each in built:
        found.setdefault(each.name, []).append(each.target)
    return found


def _is_of(name: str, folder: str) -> bool:
    """Return whether a model belongs to a folder, itself or as a form called `<folder>_<form>`."""
    return name == folder or name.startswith(f"{folder}_")


def endpoint_fits(
    report: Report, *, models: Mapping[str, Sequence[PlanTarget]], endpoint: Sequence[PlanTarget]
) -> None:
    """Report problems with models of an endpoint that no build job makes for it."""
    alike: dict[tuple[PlanTarget, ...], list[str]] = {}
    for name, builds in models.items():
        alike.setdefault(tuple(builds), []).append(name)
    found: dict[Problem, list[str]] = {}
    for builds, names in alike.items():
        problem = _misfit(report.where, builds, endpoint)
        if problem is not None:
            found.setdefault(problem, []).extend(names)
    report.add(replace(each, what=f"{each.what}: {some_of(names)}") for each, names in found.items())


def _misfit(where: str, builds: Sequence[PlanTarget], endpoint: Sequence[PlanTarget]) -> Problem | None:
    """Return the first build job's problem, if no job makes artifacts that all instance types can load."""
    first = None
    for build in builds:
        report = Report(where)
        for each in endpoint:
            plan_portability(report, build=build, endpoint=each)
        if not report.problems:
            return None
        first = first or report.problems[0]
    return first


def plan_portability(report: Report, *, build: PlanTarget, endpoint: PlanTarget) -> None:
    """Report the first problem with loading a model of a build job on an endpoint."""
    compiled = build.gpu is not None and bool(build.plans)
    if endpoint.gpu is None and (compiled or build.any_gpu):
        _no_gpu(report, build=build, endpoint=endpoint)
        return
    found = Report(report.where)
    first = (_plans, _completed) if compiled else (_python_portability,)
    for check in (*first, _uncompleted, _plugins, _dali, _forests):
        check(found, build=build, endpoint=endpoint)
    report.add(found.problems[:1])


def _plans(report: Report, *, build: PlanTarget, endpoint: PlanTarget) -> None:
    assert build.gpu is not None and endpoint.gpu is not None  # noqa: PT018, S101 -- plans are for GPUs
    fits = all(_runs_on(plan, build=build.gpu, endpoint=endpoint.gpu) for plan in build.plans)
    if fits and build.release.tensorrt == endpoint.release.tensorrt:
        return
    report(
        PLAN_FITS_ENDPOINT,
        f"{build.path} compiles for {_named(build)}, {endpoint.path} serves with {_named(endpoint)}",
        fix="use the same instance_type and release for both, add a ModelBuildProject for the endpoint, "
        'declare TensorRt(hardware="same-compute-capability") or "ampere+", or publish models that this '
        "endpoint does not serve to another repository",
        why=_refused(build.gpu, endpoint.gpu)
        if build.release.tensorrt == endpoint.release.tensorrt
        else "TensorRT refuses plans of another version, at the first invocation",
    )


def _runs_on(plan: str, *, build: Gpu, endpoint: Gpu) -> bool:
    return build.name == endpoint.name or runs_on(LEVELS.get(plan), built=build, gpu=endpoint)


def _refused(build: Gpu, endpoint: Gpu) -> str:
    if build.compute_capability == endpoint.compute_capability:
        return "TensorRT warns about plans for another GPU: they may be slower, or fail"
    return "TensorRT refuses plans of another compute capability, at the first invocation"


def _no_gpu(report: Report, *, build: PlanTarget, endpoint: PlanTarget) -> None:
    report(
        PLAN_FITS_ENDPOINT,
        f"{build.path} builds for {_named(build)}, {endpoint.path} serves without a GPU",
        fix="use the endpoint's instance_type for the build job, add a ModelBuildProject for it, or publish "
        "models that this endpoint does not serve to another repository",
        why="plans, and DALI pipelines that are built for GPUs, need a GPU",
    )


def _python_portability(report: Report, *, build: PlanTarget, endpoint: PlanTarget) -> None:
    """Report problems with a model without a plan: it runs on any hardware, but not with any Python."""
    another_image = build.environments and build.release.tensorrt != endpoint.release.tensorrt
    if build.release.python == endpoint.release.python and not another_image:
        return
    report(
        PLAN_FITS_ENDPOINT,
        f"{build.path} builds for Python {build.release.python} (release {build.release.name}), "
        f"{endpoint.path} serves with Python {endpoint.release.python} (release {endpoint.release.name})",
        fix="use the same release for both, or add a ModelBuildProject for the endpoint's release",
        why="packages of a Python model are built for one version of Python",
    )


def _plugins(report: Report, *, build: PlanTarget, endpoint: PlanTarget) -> None:
    missing = sorted({*build.plugins} - {*endpoint.plugins})
    if missing:
        report(
            PLUGINS_OPENED,
            f"{build.path} compiles with {', '.join(missing)}, which {endpoint.path} does not open",
            fix="set server=TritonServer(tensorrt_plugins=[...]), with an image that has the libraries",
            why="TensorRT cannot load a plan without the library of its operators",
        )


def _completed(report: Report, *, build: PlanTarget, endpoint: PlanTarget) -> None:
    if endpoint.completes:
        report(
            PLAN_AUTO_COMPLETE,
            f"{build.path} compiles plans, whose configurations {endpoint.path} completes",
            fix="remove auto_complete_config: the configurations that builds write are complete",
            why="a plan that does not fit would be refused, and no other model evicted",
        )


def _uncompleted(report: Report, *, build: PlanTarget, endpoint: PlanTarget) -> None:
    if build.completed and endpoint.strict:
        report(
            AUTO_COMPLETE,
            f"{build.path} leaves configurations to the server, which {endpoint.path} does not complete",
            fix="set server=TritonServer(auto_complete_config=True) on the endpoint; or write the inputs and "
            "outputs into config.pbtxt, and remove auto_complete from the declaration",
            why="the model would not load",
        )


def _dali(report: Report, *, build: PlanTarget, endpoint: PlanTarget) -> None:
    if not build.pipelines or loads_pipelines_of(build.release, served=endpoint.release):
        return
    report(
        PLAN_FITS_ENDPOINT,
        f"{build.path} builds DALI pipelines for release {build.release.name}, {endpoint.path} serves "
        f"with release {endpoint.release.name}",
        fix="use the same release for both, or add a ModelBuildProject for the endpoint's release",
        why="an older DALI may not read the file of a newer one",
    )


def _forests(report: Report, *, build: PlanTarget, endpoint: PlanTarget) -> None:
    newest, since = build.release.name, FIRST_WITH_ALL_FUNCTIONS
    if build.forests and endpoint.gpu is not None and newest >= since > endpoint.release.name:
        report(
            FORESTS_FIT_RELEASE,
            f"{build.path} builds forests for release {newest}, {endpoint.path} serves with release "
            f"{endpoint.release.name}",
            fix='use the same release for both, or Instances(kind="KIND_CPU") on the forests',
            why="a forest that the older release cannot load on a GPU ends its server",
        )
    if build.pool and endpoint.pool is not None and build.pool > endpoint.pool:
        report(
            FITS_POOL,
            f"forests and inputs on the GPU of {build.path} take {build.pool:g} MiB, and {endpoint.path} has "
            f"a pool of {endpoint.pool:g}",
            fix=f"set server=TritonServer(cuda_memory_pool=...) to {build.pool:g} MiB or more; or "
            'Instances(kind="KIND_CPU") on the forests, and host_inputs=True on Python models',
            why="they share the pool, which cannot grow: forests do not load, and outputs are empty",
        )


def _named(target: PlanTarget) -> str:
    gpu = target.gpu.name if target.gpu else "no GPU"
    return f"{gpu} and TensorRT {target.release.tensorrt} (release {target.release.name})"


def same_gpu(report: Report, preferred: InstanceType, other: InstanceType) -> None:
    """Report problems with running the very same model on two instance types."""
    if preferred.gpu == other.gpu:
        return
    report(
        INSTANCE_POOLS,
        f"{other.name} has {gpu_named(other.gpu)}, {preferred.name} has {gpu_named(preferred.gpu)}",
        fix=f"use other sizes from the family of {preferred.name}, or a single-model endpoint with an "
        "artifact for each type",
        why="a TensorRT plan is compiled for one GPU model: on another it may be slower, fail, or not load",
    )


def gpu_named(gpu: Gpu | None) -> str:
    """Name a GPU in an error."""
    return "no GPU" if gpu is None else f"GPU {gpu.name}"
