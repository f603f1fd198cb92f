"""An endpoint can load what the build jobs of its repository publish, each model by itself.

A name stands for an artifact per target, so that build jobs for several GPUs or releases share a repository;
all instance types of one endpoint load what one of them makes. What ties an artifact to a GPU is a TensorRT
plan: it loads with the same TensorRT and on the same GPU model only, or on the GPUs for which its `hardware`
asks, and never on an instance type without a GPU. On another GPU model of the same compute capability
TensorRT warns. A DALI pipeline of a build for GPUs decodes on one, of whatever model, and loads in a DALI
that is not older. ONNX and Python models run on a CPU as well as on any GPU, where ONNX Runtime uses what it
finds; so does all that a build for instance types without a GPU makes. What every model still shares with the
release is Python: packages next to a Python model are built for one version of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from triton_models.artifact.built_for import runs_on
from triton_models.base.checks import Check
from triton_models.base.errors import Problem
from triton_models.base.suggest import some_of
from triton_models.builds.export.dali import loads_pipelines_of
from triton_models.facts.instances import Gpu
from triton_models.facts.releases import Release
from triton_models.facts.tensorrt import LEVELS

# Of what is true of models without a plan: instance groups and Python's version.
PLAN_FITS_ENDPOINT = Check(
    id="plan-fits-endpoint",
    source=(
        "2026-11-21: https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/advanced.html"
        " https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_configuration.md"
        " https://github.com/triton-inference-server/python_backend"
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTarget:
    """The hardware and release that an artifact needs.

    Attributes:
        gpu: The GPU model that compiles or runs plans; None without a GPU, and so without a plan.
        release: The release whose TensorRT compiles or loads plans, and whose Python runs Python models.
        path: The construct that does so.
        plans: The hardware of the plans that are declared, as `TensorRt` says it; of a build job alone.
        environments: Whether the model carries a Python environment; of a build job alone.
        pipelines: Whether it has a DALI pipeline; of a build job alone.
        any_gpu: Whether it needs a GPU, of whatever model; of a build job alone.
    """

    gpu: Gpu | None
    release: Release
    path: str
    plans: tuple[str, ...] = ("this-gpu",)
    environments: bool = False
    pipelines: bool = False
    any_gpu: bool = False


def endpoint_fits(
    *, models: Mapping[str, Sequence[PlanTarget]], endpoint: Sequence[PlanTarget], where: str
) -> Iterator[Problem]:
    """The problems with an endpoint for which no build job makes some of its models.

    Args:
        models: The models that it serves, by name, each as one build job or several make it.
        endpoint: What it serves with, for each of its instance types.
        where: What the problems are reported about.
    """
    alike: dict[tuple[PlanTarget, ...], list[str]] = {}
    for name, builds in models.items():
        alike.setdefault(tuple(builds), []).append(name)
    found: dict[Problem, list[str]] = {}
    for builds, names in alike.items():
        for problem in _misfit(builds, endpoint, where=where):
            found.setdefault(problem, []).extend(names)
    for problem, names in found.items():
        yield replace(problem, what=f"{problem.what}: {some_of(names)}")


def _misfit(builds: Sequence[PlanTarget], endpoint: Sequence[PlanTarget], *, where: str) -> Iterator[Problem]:
    """The first build job's problem, if none makes what all instance types can load."""
    found: list[Problem] = []
    for build in builds:
        problems = (plan_portability(build=build, endpoint=each, where=where) for each in endpoint)
        problem = next(chain.from_iterable(problems), None)
        if problem is None:
            return
        found.append(problem)
    yield from found[:1]


def plan_portability(*, build: PlanTarget, endpoint: PlanTarget, where: str) -> Iterator[Problem]:
    """The problem with an endpoint loading a model that a build job publishes: the first that there is."""
    compiled = build.gpu is not None and bool(build.plans)
    if endpoint.gpu is None and (compiled or build.any_gpu):
        yield _no_gpu(build=build, endpoint=endpoint, where=where)
        return
    found = _plans if compiled else _python_portability
    both = chain(
        found(build=build, endpoint=endpoint, where=where), _dali(build=build, endpoint=endpoint, where=where)
    )
    yield from islice(both, 1)


def _plans(*, build: PlanTarget, endpoint: PlanTarget, where: str) -> Iterator[Problem]:
    assert build.gpu is not None and endpoint.gpu is not None  # noqa: PT018, S101 -- plans are for GPUs
    fits = all(_runs_on(plan, build=build.gpu, endpoint=endpoint.gpu) for plan in build.plans)
    if fits and build.release.tensorrt == endpoint.release.tensorrt:
        return
    yield PLAN_FITS_ENDPOINT.problem(
        what=f"{build.path} compiles for {_named(build)}, {endpoint.path} serves with {_named(endpoint)}",
        where=where,
        expected="the same GPU model and the same TensorRT on both sides of a repository",
        why=_refused(build.gpu, endpoint.gpu)
        if build.release.tensorrt == endpoint.release.tensorrt
        else "TensorRT refuses plans of another version when they are first invoked",
        fix="give both the same instance_type and release, add a ModelBuildProject for the endpoint's, "
        'declare TensorRt(hardware="same-compute-capability") or "ampere+", or publish what this endpoint '
        "does not serve to a repository of its own",
    )


def _runs_on(plan: str, *, build: Gpu, endpoint: Gpu) -> bool:
    return build.name == endpoint.name or runs_on(LEVELS.get(plan), built=build, gpu=endpoint)


def _refused(build: Gpu, endpoint: Gpu) -> str:
    if build.compute_capability == endpoint.compute_capability:
        return "TensorRT warns of a plan of another GPU: it may be slower there, or fail"
    return "TensorRT refuses plans of another compute capability when they are first invoked"


def _no_gpu(*, build: PlanTarget, endpoint: PlanTarget, where: str) -> Problem:
    return PLAN_FITS_ENDPOINT.problem(
        what=f"{build.path} builds for {_named(build)}, {endpoint.path} serves without a GPU",
        where=where,
        expected="a build job for instance types without a GPU",
        why="plans, and the DALI pipelines of such a build, need a GPU to load",
        fix="give the build job the instance_type of the endpoint, add a ModelBuildProject for it, or "
        "publish what this endpoint does not serve to a repository of its own",
    )


def _python_portability(*, build: PlanTarget, endpoint: PlanTarget, where: str) -> Iterator[Problem]:
    """The problem with serving what was built without a plan: any hardware will do, not any Python."""
    another_image = build.environments and build.release.tensorrt != endpoint.release.tensorrt
    if build.release.python == endpoint.release.python and not another_image:
        return
    yield PLAN_FITS_ENDPOINT.problem(
        what=f"{build.path} builds for Python {build.release.python} (release {build.release.name}), "
        f"{endpoint.path} serves with Python {endpoint.release.python} (release {endpoint.release.name})",
        where=where,
        expected="releases with the same Python on both sides of a repository",
        why="packages next to a Python model are for one version of Python",
        fix="give both the same release, or add a ModelBuildProject for the endpoint's",
    )


def _dali(*, build: PlanTarget, endpoint: PlanTarget, where: str) -> Iterator[Problem]:
    """The problem with pipelines of a newer DALI than the one that loads them."""
    if not build.pipelines or loads_pipelines_of(build.release, served=endpoint.release):
        return
    yield PLAN_FITS_ENDPOINT.problem(
        what=f"{build.path} makes DALI pipelines for release {build.release.name}, {endpoint.path} serves "
        f"with release {endpoint.release.name}",
        where=where,
        expected="a release whose DALI is not older than the one that made the pipeline",
        why="an older DALI may not read the file of a newer one",
        fix="give both the same release, or add a ModelBuildProject for the endpoint's",
    )


def _named(target: PlanTarget) -> str:
    gpu = target.gpu.name if target.gpu else "no GPU"
    return f"{gpu} and TensorRT {target.release.tensorrt} (release {target.release.name})"
