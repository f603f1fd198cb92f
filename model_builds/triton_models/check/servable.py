"""Checks that an endpoint of a release can serve the declared models, without building anything.

They reject a pull request early. Each model is first checked alone, with the first checks of a build. Then
all models are checked together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from triton_models.artifact.environments.declared import environment_problems
from triton_models.base.checks import Report
from triton_models.base.errors import FleetError, Problem
from triton_models.declare.backends import AotInductor, LibTorch, OpenVino, TensorRt
from triton_models.declare.declaration import ModelDefinition
from triton_models.declare.environments import Wheels
from triton_models.declare.models import DaliPipeline, Ensemble, Forest, OnnxFile, PythonModel, PyTorchNetwork
from triton_models.declare.network_types import check_types
from triton_models.declare.requires import check_backends
from triton_models.declare.searched import written_plans
from triton_models.declare.weights import LocalWeights, S3Weights, Weights, weights_of
from triton_models.facts.instances import Gpu
from triton_models.facts.limits import PAYLOAD_LIMIT
from triton_models.facts.releases import Release
from triton_models.facts.shared_memory import PythonRegions, too_little_shared_memory
from triton_models.facts.tensorrt import Precision, plan_problems

PAYLOAD_RULE = "payload"
NAME_RULE = "composing-name-taken"
MIXED_RULE = "aoti-and-torchscript"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDeclaration:
    """The result of checking one declaration alone.

    Attributes:
        artifact: The name it is published under; empty if the declaration is unreadable.
        names: The names that must be unique in a repository: its own, and those of an ensemble's steps.
        plans: The hardware of its plans, as in `TensorRt`, including plans made by its `write`.
        environments: True if one of its models has a Python environment.
        pipelines: True if one of its models is a DALI pipeline.
        any_gpu: True if it needs a GPU of any kind. A DALI pipeline built for GPUs decodes on one, and a
            function that names wheels may name others for GPUs.
        elsewhere: The paths of its weights that are outside the folder that a build job gets.
        objects: The addresses of its weights in S3.
        precisions: The precisions of its declared plans.
        plugins: The libraries that its plans need in the image of the endpoint.
        platforms: The platforms of its models in the PyTorch backend: "pytorch_libtorch", "torch_aoti".
        forests: True if it has forests that may run on a GPU.
        forests_mib: The memory on a GPU that its forests declare, in MiB.
        auto_complete: True if the server completes its configurations.
    """

    artifact: str = ""
    names: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    plans: tuple[str, ...] = ()
    environments: bool = False
    pipelines: bool = False
    any_gpu: bool = False
    elsewhere: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    precisions: tuple[Precision, ...] = ()
    plugins: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    forests: bool = False
    forests_mib: int = 0
    auto_complete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _OnCpus:
    """The part of a `BuildJob` that a function which names wheels reads, in a build for CPUs."""

    release: Release
    source: Path
    gpu: Gpu | None = None
    cpu: bool = True
    rehearsed: bool = False
    portable: bool = False


def check_declaration(
    build: ModelDefinition, *, source: Path, release: Release, gpu: bool
) -> CheckedDeclaration:
    """Check one declaration alone."""
    weights = weights_of(build)
    problems = _alone(build, source=source, release=release, gpu=gpu)
    environments = [model.environment for model in build.models if isinstance(model, PythonModel)]
    pipelines = any(isinstance(model, DaliPipeline) for model in build.models)
    chosen = any(isinstance(each, Wheels) and callable(each.wheels) for each in environments)
    return CheckedDeclaration(
        artifact=build.name,
        names=_names(build),
        problems=tuple(replace(each, where=f"model {build.name!r}: {each.where}") for each in problems),
        plans=tuple(sorted(_plans(build, source))) if gpu else (),
        environments=any(each is not None for each in environments),
        pipelines=pipelines,
        any_gpu=gpu and (pipelines or chosen),
        elsewhere=tuple(_elsewhere(weights, source.parent.parent)),
        objects=tuple(each.url for each in weights if isinstance(each, S3Weights)),
        precisions=tuple(sorted(build.precisions)) if gpu else (),
        plugins=tuple(sorted(_plugins(build))) if gpu else (),
        platforms=tuple(sorted(_platforms(build))),
        auto_complete=build.auto_complete,
        forests=any(
            isinstance(model, Forest) and model.instances.kind != "KIND_CPU" for model in build.models
        ),
        forests_mib=sum(
            model.instances.count * (model.instances.gpu_memory_mb or 0)
            for model in build.models
            if isinstance(model, Forest) and gpu
        ),
    )


def problems_together(checked: Iterable[CheckedDeclaration]) -> Iterator[Problem]:
    """Yield the problems of a repository's declarations: first of each alone, then of several together."""
    owners: dict[str, list[str]] = {}
    served: dict[str, list[str]] = {}
    for each in checked:
        yield from each.problems
        for platform in each.platforms:
            served.setdefault(platform, []).append(each.artifact)
        for name in each.names:
            owners.setdefault(name, []).append(each.artifact)
    yield from _names_taken(owners)
    yield from _mixed(served)


def _alone(build: ModelDefinition, *, source: Path, release: Release, gpu: bool) -> Iterator[Problem]:
    try:
        check_backends(build, release)
    except FleetError as error:
        yield from error.problems
    yield from environment_problems(build, _OnCpus(release=release, source=source))
    for model in build.models:
        if gpu and isinstance(model, PyTorchNetwork | OnnxFile) and isinstance(model.backend, TensorRt):
            where = f"the backend of {model.name!r}"
            backend = model.backend
            yield from plan_problems(
                backend.precision, backend.hardware, release=release, gpu=None, where=where
            )
        if isinstance(model, PyTorchNetwork) and (
            isinstance(model.backend, OpenVino) or (gpu and isinstance(model.backend, TensorRt))
        ):
            report = Report(f"the network of {model.name!r}")
            inputs = ((f"input {each.name!r}", each.full_type) for each in model.inputs)
            check_types(report, inputs, backend=model.backend.backend, release=release)
            yield from report.problems
    python = {model.name: _regions(model) for model in build.models if isinstance(model, PythonModel)}
    yield from too_little_shared_memory(python, where="its Python models")
    yield from _payload(build)


def _regions(model: PythonModel) -> PythonRegions:
    tensors = [*model.outputs, *(model.inputs if model.backend.host_inputs else ())]
    row = sum(tensor.most_bytes for tensor in tensors)
    return PythonRegions(count=model.instances.count, row=row, rows=max(model.max_batch_size, 1))


def _payload(build: ModelDefinition) -> Iterator[Problem]:
    """Yield a problem if one row of a plain model's inputs exceeds the request limit."""
    if len(build.models) != 1 or not isinstance(build.models[0], PythonModel | PyTorchNetwork):
        return
    inputs = build.models[0].inputs
    least = sum(tensor.least_bytes for tensor in inputs)
    if least > PAYLOAD_LIMIT:
        yield Problem(
            what=f"the smallest request has {least:,} bytes: {', '.join(tensor.name for tensor in inputs)}",
            where="`inputs` of its model",
            why="InvokeEndpoint refuses longer requests, so every invocation would fail",
            fix=f"use inputs of at most {PAYLOAD_LIMIT:,} bytes, such as a compressed image that an earlier "
            "step decodes",
            rule=PAYLOAD_RULE,
        )


def _names_taken(owners: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """Yield a problem for each composing model's name that is not unique in the repository."""
    for name, artifacts in owners.items():
        if len(artifacts) > 1:
            yield Problem(
                what=f"{name!r} is a model of {_listed(artifacts)}",
                where="the names of the declared models",
                why="their metrics would be mixed, and a cache or inner call would use the wrong one",
                fix=f"start each name with its artifact's, such as {artifacts[1]}_{name}",
                rule=NAME_RULE,
            )


def _mixed(served: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """Yield a problem if one endpoint would serve both kinds of the PyTorch backend's models.

    src/libtorch.cc of r26.03 to r26.05 keeps the kind of each model by its address, and removes no entry when
    a model is unloaded (read 2026-11-24).
    """
    if len(served) > 1:
        kinds = (f"{_listed(served[platform])} ({platform})" for platform in sorted(served))
        yield Problem(
            what=f"TorchScript and compiled networks in one repository: {', '.join(kinds)}",
            where="the backends of the declared models",
            why="after an eviction the backend may take a model of one kind for the other, and not load it",
            fix="declare LibTorch() or AotInductor() for all, or serve the others from another fleet",
            rule=MIXED_RULE,
        )


def _plugins(build: ModelDefinition) -> set[str]:
    backends = [model.backend for model in build.models if isinstance(model, PyTorchNetwork | OnnxFile)]
    return {plugin for each in backends if isinstance(each, TensorRt) for plugin in each.plugins}


def _platforms(build: ModelDefinition) -> set[str]:
    networks = [model.backend for model in build.models if isinstance(model, PyTorchNetwork)]
    return {
        "torch_aoti" if isinstance(backend, AotInductor) else "pytorch_libtorch"
        for backend in networks
        if isinstance(backend, AotInductor | LibTorch)
    }


def _names(build: ModelDefinition) -> tuple[str, ...]:
    """Return the artifact's name, and those of an ensemble's steps."""
    composing = [model.name for model in build.models if not isinstance(model, Ensemble)]
    return tuple(dict.fromkeys([build.name, *composing]))


def _plans(build: ModelDefinition, source: Path) -> set[str]:
    compiled = {
        model.backend.hardware
        for model in build.models
        if isinstance(model, PyTorchNetwork | OnnxFile) and isinstance(model.backend, TensorRt | AotInductor)
    }
    return {*compiled, *(written_plans(source) if build.write is not None else ())}


def _elsewhere(weights: Iterable[Weights], uploaded: Path) -> Iterator[str]:
    """Yield the paths of weights that do not belong to the folder that holds models/."""
    for path in (Path(each.path) for each in weights if isinstance(each, LocalWeights)):
        if not path.is_absolute() or not path.resolve().is_relative_to(uploaded.resolve()):
            yield str(path)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}"
