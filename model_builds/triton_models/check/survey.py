"""Checks of thousands of declarations in one synthesis.

They find what an endpoint of a release could not serve, without building anything, and so reject a pull
request early. Each model is first checked alone, with the first checks of a build. Then all are checked
together.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from triton_models.artifact.environments.declared import environment_problems
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.errors import FleetError, Problem
from triton_models.declare.backends import TensorRt
from triton_models.declare.declaration import ModelDefinition
from triton_models.declare.environments import Wheels
from triton_models.declare.models import (
    DaliPipeline,
    Ensemble,
    Forest,
    Model,
    OnnxFile,
    PythonModel,
    PyTorchNetwork,
)
from triton_models.declare.network_inputs import check_types
from triton_models.declare.reading import FORM_MARK, DeclaredFolder, folder_reader
from triton_models.declare.requires import check_backends
from triton_models.declare.searched import environment_of_a_build, variables_read, written_plans
from triton_models.declare.weights import LocalWeights, S3Weights, Weights, weights_of
from triton_models.facts.containers import PythonRegions, rows_of_a_request, too_little_shared_memory
from triton_models.facts.instances import Gpu
from triton_models.facts.limits import PAYLOAD_LIMIT
from triton_models.facts.releases import Release
from triton_models.facts.tensorrt import Precision, plan_problems

PAYLOAD = Check(id="payload", source="InvokeEndpoint of the API model of sagemaker-runtime")
NAME_TAKEN = Check(id="composing-name-taken", source=FROM_ARGUMENTS)


class Survey:
    """The checks of declared models, each of which is read once.

    Args:
        names: The models: folders, or `folder:form`; duplicates are dropped.
        source: The folder that holds models/.
        release: The Triton release that serves them.
        gpu: True if GPUs serve them, with plans for models declared for TensorRT.
        given: The environment variables that a build sets, such as the addresses of weights.
    """

    def __init__(
        self, names: Sequence[str], *, source: Path, release: Release, gpu: bool, given: Mapping[str, str]
    ) -> None:
        self.names = tuple(dict.fromkeys(names))
        self._source, self._release, self._gpu, self._given = source, release, gpu, given
        self._shell = dict(os.environ)
        self._results: list[CheckedDeclaration] | None = None

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of single declarations in the order of names, then those of several together."""
        return problems_together(self.results())

    def results(self) -> Sequence[CheckedDeclaration]:
        """Return the result of each declaration, in the order of names."""
        if self._results is None:
            reader = folder_reader(self._source / "models")
            with environment_of_a_build(self._given), _no_garbage_collection():
                self._results = [self._check(name, reader) for name in self.names]
        return self._results

    def _check(self, name: str, read: Callable[[str], DeclaredFolder]) -> CheckedDeclaration:
        folder = name.partition(FORM_MARK)[0]
        source = (self._source / "models" / folder).absolute()
        try:
            declared = read(folder)
            build = declared.asked(name)
        except FleetError as error:
            return CheckedDeclaration(problems=error.problems)
        checked = check_declaration(build, source=source, release=self._release, gpu=self._gpu)
        if declared.family is not None:
            checked = replace(checked, family=True, objects=(*checked.objects, *declared.family.objects))
        if not (checked.elsewhere or checked.objects):
            return checked
        # Values from this shell, which no build job has.
        ours = {self._shell.get(variable) for variable in variables_read(source) - self._given.keys()}
        return replace(
            checked,
            elsewhere=tuple(path for path in checked.elsewhere if path not in ours),
            objects=tuple(url for url in checked.objects if url not in ours),
        )


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Collect no garbage for a time, which is a sixth of the time that declarations take."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDeclaration:
    """The result of checking one declaration alone.

    Attributes:
        artifact: The name it is published under; empty if the declaration is unreadable.
        names: The names that must be unique in a repository: its own, and those of an ensemble's steps.
        plans: The hardware of its plans, as in `TensorRt`, including plans made by its `write`.
        any_gpu: True if it needs a GPU of any kind. A DALI pipeline built for GPUs decodes on one, and a
            function that names wheels may name others for GPUs.
        elsewhere: The paths of its weights that are outside the folder that a build job gets.
        plugins: The libraries that its plans need in the image of the endpoint.
        forests: True if it has forests that may run on a GPU.
        pool_mib: The least of the server's pool on a GPU that it needs, in MiB: what its forests declare, and
            a full batch of each Python model whose inputs stay on the GPU.
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
    forests: bool = False
    pool_mib: int = 0
    auto_complete: bool = False
    family: bool = False


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
        auto_complete=build.auto_complete,
        forests=any(
            isinstance(model, Forest) and model.instances.kind != "KIND_CPU" for model in build.models
        ),
        pool_mib=sum(map(_pool_mib, build.models)) if gpu else 0,
    )


def problems_together(checked: Iterable[CheckedDeclaration]) -> Iterator[Problem]:
    """Yield the problems of a repository's declarations: first of each alone, then of several together."""
    owners: dict[str, list[str]] = {}
    for each in checked:
        yield from each.problems
        for name in each.names:
            owners.setdefault(name, []).append(each.artifact)
    yield from _names_taken(owners)


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
                build.precision(model), backend.hardware, release=release, gpu=None, where=where
            )
            report = Report(f"the network of {model.name!r}")
            tensors = model.inputs if isinstance(model, PyTorchNetwork) else ()
            inputs = ((f"input {tensor.name!r}", tensor.full_type) for tensor in tensors)
            check_types(report, inputs, backend=backend.backend, release=release)
            yield from report.problems
    alone = len(build.models) == 1
    python = {m.name: _regions(m, alone=alone) for m in build.models if isinstance(m, PythonModel)}
    yield from too_little_shared_memory(python, where="its Python models")
    yield from _payload(build)


def _regions(model: PythonModel, *, alone: bool) -> PythonRegions:
    tensors = [*model.outputs, *(model.inputs if model.backend.host_inputs else ())]
    row, rows = sum(tensor.most_bytes for tensor in tensors), max(model.max_batch_size, 1)
    if alone and model.batching is None:
        rows = min(rows, rows_of_a_request(sum(tensor.most_bytes for tensor in model.inputs)))
    return PythonRegions(count=model.instances.count, row=row, rows=rows)


def _pool_mib(model: Model) -> int:
    if isinstance(model, Forest):
        return model.instances.count * (model.instances.gpu_memory_mb or 0)
    if not isinstance(model, PythonModel) or model.backend.host_inputs or model.instances.kind == "KIND_CPU":
        return 0
    row = sum(tensor.most_bytes for tensor in model.inputs)
    return math.ceil(model.instances.count * row * max(model.max_batch_size, 1) / (1 << 20))


def _payload(build: ModelDefinition) -> Iterator[Problem]:
    """Yield a problem if one row of a plain model's inputs exceeds the request limit."""
    if len(build.models) != 1 or not isinstance(build.models[0], PythonModel | PyTorchNetwork):
        return
    inputs = build.models[0].inputs
    least = sum(tensor.least_bytes for tensor in inputs)
    if least > PAYLOAD_LIMIT:
        what = f"the smallest request has {least:,} bytes: {', '.join(tensor.name for tensor in inputs)}"
        why = "InvokeEndpoint refuses longer requests, so every invocation would fail"
        fix = (
            f"use inputs of at most {PAYLOAD_LIMIT:,} bytes, such as a compressed image that an earlier "
            "step decodes"
        )
        yield PAYLOAD.problem(what=what, where="`inputs` of its model", why=why, fix=fix)


def _names_taken(owners: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    for name, artifacts in owners.items():
        if len(artifacts) > 1:
            what = f"{name!r} is a model of {_listed(artifacts)}"
            why = "their metrics would be mixed, and a cache or inner call would use the wrong one"
            fix = f"start each name with its artifact's, such as {artifacts[1]}_{name}"
            yield NAME_TAKEN.problem(what=what, where="the names of the declared models", why=why, fix=fix)


def _plugins(build: ModelDefinition) -> set[str]:
    backends = [model.backend for model in build.models if isinstance(model, PyTorchNetwork | OnnxFile)]
    return {plugin for each in backends if isinstance(each, TensorRt) for plugin in each.plugins}


def _names(build: ModelDefinition) -> tuple[str, ...]:
    composing = [model.name for model in build.models if not isinstance(model, Ensemble)]
    return tuple(dict.fromkeys([build.name, *composing]))


def _plans(build: ModelDefinition, source: Path) -> set[str]:
    compiled = {
        model.backend.hardware
        for model in build.models
        if isinstance(model, PyTorchNetwork | OnnxFile) and isinstance(model.backend, TensorRt)
    }
    return {*compiled, *(written_plans(source) if build.write is not None else ())}


def _elsewhere(weights: Iterable[Weights], uploaded: Path) -> Iterator[str]:
    for path in (Path(each.path) for each in weights if isinstance(each, LocalWeights)):
        if not path.is_absolute() or not path.resolve().is_relative_to(uploaded.resolve()):
            yield str(path)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}"
