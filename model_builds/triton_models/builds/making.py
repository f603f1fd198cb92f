"""Creation of the model directories of a declaration: its models, then its own write()."""

from __future__ import annotations

import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.artifact.environments.declared import environment_problems
from triton_models.artifact.networks import Signature, onnx_signature
from triton_models.artifact.pbtxt import CALLS, CONFIG_FILE, GPU_MEMORY, plain, write_config
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.base.suggest import did_you_mean
from triton_models.builds.derived import (
    add_warm_up,
    derived_ensemble,
    largest_sizes,
    served_tensors,
    usual_sizes,
)
from triton_models.builds.environments import add_environments
from triton_models.builds.job import Job
from triton_models.builds.plan_profiles import profile_shapes, use_profiles
from triton_models.builds.tensorrt.options import check_precision
from triton_models.declare.backends import LibTorch, OnnxRuntime, TensorRt
from triton_models.declare.declaration import ModelDefinition
from triton_models.declare.models import (
    DaliPipeline,
    Ensemble,
    Forest,
    Network,
    OnnxFile,
    PythonModel,
    PyTorchNetwork,
    ServedModel,
    TensorFlowGraph,
    controls_of,
)
from triton_models.declare.network_inputs import with_inputs_of_examples
from triton_models.declare.reading import blame, place_of
from triton_models.declare.requires import check_backends, check_requires
from triton_models.declare.tensors import Tensor, larger_sizes
from triton_models.facts.tensorrt import Precision

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from triton_models.artifact.pbtxt import ModelConfig
    from triton_models.facts.releases import Release

CALLED_MODELS = Path(__file__).with_name("called_models.py")
"""The module that a model which calls others imports."""

# What PyTorch 2.13 says of sizes of which its operators make none, and its exporter, of those that it tries.
_TOO_SMALL = r"not in VR\[|output size|too small"


def make(build: ModelDefinition, job: Job) -> None:
    """Create every model directory of a declaration.

    Checks that need no export come first: the precision and its tolerance, the environments, and the
    availability of the weights.
    """
    from triton_models.builds.export.weights import described, fetch

    check_backends(build, job.release)
    check_requires(build.requires, release=job.release)
    for model in build.models:
        if job.on_gpu and isinstance(model, Network) and isinstance(model.backend, TensorRt):
            check_precision(job.release, build.precision(model))
    raise_if_any(environment_problems(build, job))
    build.check_tolerance(_precisions(build, job))
    if build.weights is not None:
        fetch(build.weights)
        job.sources["weights"] = described(build.weights)
    configs = {
        model.name: _MAKERS[type(model)](model, build, job)
        for model in build.models
        if not isinstance(model, Ensemble)
    }
    for model in build.models:
        if isinstance(model, Ensemble):
            job.model(derived_ensemble(model, configs))
    add_environments(build, job)
    if build.write is not None:
        build.write(job)
        build.check_tolerance(job.precisions or ["fp32"])


def _precisions(build: ModelDefinition, job: Job) -> set[Precision]:
    """Return the precisions of the build: those declared, and without plans those of the files."""
    without_plans = set(build.precisions_without_gpu(cpu=job.cpu))
    if not without_plans and build.write is None:
        without_plans.add("fp32")
    if not job.compiler:
        return without_plans
    declared = set(build.precisions) or without_plans
    return declared | without_plans if job.rehearsed else declared  # a stand-in runs the file


def _make_python(model: PythonModel, build: ModelDefinition, job: Job) -> ModelConfig:
    from triton_models.builds.export.weights import fetch

    version = job.folder(model.name)
    _copy(job.source / model.code, version / "model.py", model)
    for name in model.files:
        _copy(job.source / name, version / Path(name).name, model)
    for name in model.weights_files:
        if build.weights is not None:  # a declaration without weights is refused when it is read
            weights = fetch(build.weights)
            source = weights if weights.is_file() and weights.name == name else weights / name
            _copy(source, version / Path(name).name, model)
    job.add_packages(version, *model.packages)
    parameters = {name: str(value) for name, value in model.parameters.items()}
    if model.calls:
        shutil.copyfile(CALLED_MODELS, version / CALLED_MODELS.name)
        parameters |= {f"{CALLS}{name}": name for name in model.calls}
    return _configure(model, build, job, tensors=(model.inputs, model.outputs), parameters=parameters)


def _make_pytorch(model: PyTorchNetwork, build: ModelDefinition, job: Job) -> ModelConfig:
    from triton_models.builds.export.onnx import example_tensors, type_problems

    complete = model if model.inputs else with_inputs_of_examples(model, build)
    network = model.network()
    try:
        if isinstance(model.backend, LibTorch):
            return _make_torchscript(network, complete, model.backend, build, job)
        return _make_exported(network, complete, build, job)
    except Exception as error:
        tensors = example_tensors(complete.inputs, batches=model.max_batch_size > 0)
        raise_if_any(type_problems(network, tensors, name=model.name, from_examples=not model.inputs))
        raise_if_any(_export_problems(error, model, job))
        raise_if_any(_clears_masked_tokens(error, network))
        raise


def _clears_masked_tokens(error: Exception, network: torch.nn.Module) -> Iterator[Problem]:
    """Yield the problems of nn.TransformerEncoder's fast path: zeros for masked tokens, and fewer tokens."""
    import torch

    from triton_models.builds.export.compared import SOURCE_DIFFERS

    encoders = [part for part in network.modules() if isinstance(part, torch.nn.TransformerEncoder)]
    if isinstance(error, FleetError) and any(encoder.use_nested_tensor for encoder in encoders):
        first = "if it masks tokens, create nn.TransformerEncoder with enable_nested_tensor=False"
        for problem in error.problems:
            if problem.rule in {SOURCE_DIFFERS.id, "torchscript-export"}:
                yield replace(problem, fix=f"{first}; otherwise {problem.fix}")


def _export_problems(error: Exception, model: PyTorchNetwork, job: Job) -> Iterator[Problem]:
    """Yield the first line of an error behind the exporter's own, which is about the exporter's steps."""
    import torch

    if not isinstance(error, torch.onnx.OnnxExporterError):
        return
    cause: BaseException = error
    while isinstance(cause, torch.onnx.OnnxExporterError) and cause.__cause__ is not None:
        cause = cause.__cause__
    message = str(cause).strip().partition("\n")[0].rstrip()
    line = blame(cause, job.source)
    other = 'serve the network as TorchScript: backend=LibTorch(export="script")'
    fix = f"change that line, such as to torch.where, or {other}"
    if re.search(_TOO_SMALL, message) and (larger := larger_sizes(model.inputs)):
        fix = f"{larger}; or {fix}"
    yield Problem(
        what=f"{model.name!r} cannot be exported to ONNX: {type(cause).__name__}: {message}",
        where=place_of(model, "network", job.source) if line == str(job.source) else line,
        fix=fix,
        rule="onnx-export",
    )


def _make_exported(
    network: torch.nn.Module, model: PyTorchNetwork, build: ModelDefinition, job: Job
) -> ModelConfig:
    from triton_models.builds.export.answers import run_module
    from triton_models.builds.export.attention import simplify_attention
    from triton_models.builds.export.fused import fuse
    from triton_models.builds.export.onnx import OPSET, export_network

    path = job.folder(model.name) / "model.onnx"
    plan = isinstance(model.backend, TensorRt)
    export_network(network, model, path, opset=job.release.plan_opset if plan else OPSET)
    _check_outputs(model, len(onnx_signature(path).outputs), job)
    source = run_module(network, [tensor.name for tensor in model.inputs], model.outputs)

    def rewrite() -> None:
        simplify_attention(path, model)
        if isinstance(model.backend, OnnxRuntime):
            fuse(path, model, job.release)

    return _finish(path, source, model, build, job, rewrite=rewrite)


def _finish(
    path: Path,
    source: Callable[[Any], Any] | None,
    model: Network,
    build: ModelDefinition,
    job: Job,
    *,
    rewrite: Callable[[], None] | None = None,
) -> ModelConfig:
    """Rewrite a network, bring it into its precision, compare it with its source, and configure it.

    The configuration is derived last, from the finished file. The checks of tensors come first.
    """
    from triton_models.builds.export.convolutions import check_options, note_changing_shapes
    from triton_models.builds.verified import prepare

    check_options(model, job.release)
    note_changing_shapes(path, model, job)
    _check_tensors(path, model, job)
    _count(path, model, build, job)
    verified = prepare(path, source, model, build, job)
    if rewrite is not None:
        rewrite()
    options = verified.lower()
    tensors = _derive(model, job, job.signature(path))
    config = _configure(model, build, job, tensors=tensors, options=options)
    if isinstance(backend := model.backend, TensorRt):
        job.compile_plan(
            path,
            shapes=profile_shapes(model, backend, job.release),
            precision=verified.precision_of_plan(),
            hardware=backend.hardware,
            workspace_mb=backend.workspace_mb,
            optimization_level=backend.optimization_level,
            plugins=backend.plugins,
        )
    return config


def _check_tensors(path: Path, model: Network, job: Job) -> None:
    """Refuse tensors that cannot be served; ONNX Runtime knows more of them than the file may say."""
    try:
        _derive(model, job, onnx_signature(path))
    except FleetError:
        _derive(model, job, job.signature(path))


def _check_outputs(model: PyTorchNetwork, returned: int, job: Job) -> None:
    """Refuse a number of outputs other than declared: the exporter names those without a name itself."""
    if returned != len(model.outputs):
        declared = f"{len(model.outputs)} outputs are declared, {', '.join(model.outputs)}"
        raise FleetError.of(
            what=f"{declared}; forward() returns {returned}",
            where=place_of(model, "outputs", job.source),
            fix="correct outputs=[...], or what forward() returns",
            rule="network-outputs",
        )


def _make_torchscript(
    network: torch.nn.Module, model: PyTorchNetwork, backend: LibTorch, build: ModelDefinition, job: Job
) -> ModelConfig:
    """Export a network as TorchScript, and compare the file as its backend loads it."""
    import torch

    from triton_models.builds.export.pytorch import export_torchscript
    from triton_models.builds.verified import compare_module, written_requests

    path = job.folder(model.name) / "model.pt"
    signature = export_torchscript(
        network,
        path,
        name=model.name,
        inputs=model.inputs,
        outputs=model.outputs,
        batches=model.max_batch_size > 0,
        how=backend.export,
        cpu=job.cpu,
        tf32=backend.tf32,
        cudnn=backend.cudnn is not False,
        written=written_requests(model, build),
        ranges=model.inputs_between,
    )
    config = _configure(model, build, job, tensors=_derive(model, job, signature))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of deprecation
        finished = torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
    compare_module(network, finished, model, build, job, inputs=signature.inputs)
    return config


def _make_onnx(model: OnnxFile, build: ModelDefinition, job: Job) -> ModelConfig:
    from triton_models.builds.export.onnx import check_file, copy_onnx, import_opsets, optimize_onnx
    from triton_models.builds.verified import refuse_operators

    path = job.folder(model.name) / "model.onnx"
    _copy(_weights(model, build), path, model, copy=copy_onnx)
    import_opsets(path, job.release)
    check_file(path)
    has_plugins = isinstance(model.backend, TensorRt) and model.backend.plugins  # `compile_plan` refuses them
    if isinstance(_backend(model, job), OnnxRuntime) and not has_plugins:
        refuse_operators(path, model, job.release)
    _record_weights(model, job)
    optimize = (lambda: optimize_onnx(path)) if model.optimize else None
    return _finish(path, None, model, build, job, rewrite=optimize)


def _make_dali(model: DaliPipeline, build: ModelDefinition, job: Job) -> ModelConfig:
    from triton_models.builds.export.dali import make_pipeline, threads

    make_pipeline(model, job.folder(model.name) / "model.dali", job)
    if model.backend.num_threads is None:
        model = replace(model, backend=replace(model.backend, num_threads=threads(job.gpu)))
    return _configure(model, build, job, tensors=(model.inputs, model.outputs))


def _make_forest(model: Forest, build: ModelDefinition, job: Job) -> ModelConfig:
    from triton_models.builds.export.forest_comparison import compare_forest
    from triton_models.builds.export.forest_source import CHECKPOINT
    from triton_models.builds.export.forests import (
        forest_source,
        gpu_refuses_forest,
        parameters,
        tensors,
        write_forest,
    )

    source, folder = forest_source(model, model.weights or build.weights), job.folder(model.name)
    shape = write_forest(model, source, folder)
    compared = compare_forest(
        model,
        source,
        folder / CHECKPOINT,
        examples=build.examples() if model.name == build.name else (),
        tolerance=build.allowed_of(["fp32"]),
    )
    if compared is not None:
        job.compared[model.name] = compared
    _record_weights(model, job)
    if reason := gpu_refuses_forest(model, shape, job.release):
        model = _on_cpu(model, reason, job.release)
    config = _configure(
        model, build, job, tensors=tensors(model, shape), parameters=parameters(model, shape, job.release)
    )
    if list(config.output[0].dims) == [1]:
        # The backend drops sizes of 1 from its answers; with a reshape, the server puts them back.
        config.output[0].reshape.shape.append(1)
        write_config(config, job.root / model.name / CONFIG_FILE)
    return config


def _on_cpu(forest: Forest, reason: str, release: Release) -> Forest:
    """Place a forest on the CPU that the release's GPU importer would end its server on."""
    if forest.instances.kind == "KIND_GPU":
        raise FleetError.of(
            what=f"release {release.name} cannot load {forest.name!r} on a GPU: it has {reason}",
            where=f"the instances of {forest.name!r}",
            why="loading it would end the server, with all its models",
            fix="remove kind: the build then places it on the CPU, with the same answers",
            rule="forest-gpu",
        )
    if forest.instances.kind != "KIND_CPU":
        because = f"it has {reason}, which release {release.name} cannot load on a GPU"
        sys.stderr.write(f"note: {forest.name} runs on the CPU: {because}\n")
    return replace(forest, instances=replace(forest.instances, kind="KIND_CPU", gpu_memory_mb=None))


def _make_graph(model: TensorFlowGraph, build: ModelDefinition, job: Job) -> ModelConfig:
    _copy(_weights(model, build), job.folder(model.name) / "model.graphdef", model)
    _record_weights(model, job)
    return _configure(model, build, job, tensors=(model.inputs, model.outputs))


_MAKERS: Mapping[type, Callable[[Any, ModelDefinition, Job], ModelConfig]] = {
    PythonModel: _make_python,
    PyTorchNetwork: _make_pytorch,
    OnnxFile: _make_onnx,
    DaliPipeline: _make_dali,
    Forest: _make_forest,
    TensorFlowGraph: _make_graph,
}


def _weights(model: OnnxFile | TensorFlowGraph, build: ModelDefinition) -> Path:
    from triton_models.builds.export.weights import fetch

    weights = model.weights or build.weights
    if weights is None:
        msg = "a file without weights is refused when its declaration is read"
        raise AssertionError(msg)
    return fetch(weights)


def _record_weights(model: OnnxFile | Forest | TensorFlowGraph, job: Job) -> None:
    from triton_models.builds.export.weights import described

    if model.weights is not None:
        job.sources[f"weights:{model.name}"] = described(model.weights)


def _count(onnx: Path, model: Network, build: ModelDefinition, job: Job) -> None:
    """Record what a network costs: of one row, and of the largest usual batch.

    The values that are alive at once are those of the largest sizes, because requests may have them.
    """
    from triton_models.builds.floor import BATCHES, costs_of

    batches = sorted({1, max(batch for batch in BATCHES if batch <= max(1, model.max_batch_size))})
    try:
        usual = most = costs_of(onnx, model, build, batches=batches)
        if usual_sizes(model) != largest_sizes(model):
            most = costs_of(onnx, model, build, batches=batches, sizes="largest")
        both = zip(usual, most, strict=True)
        job.networks[model.name] = [replace(cost, live=big.live).as_dict() for cost, big in both]
    except Exception as error:  # noqa: BLE001  of ONNX's inference: the record is no reason to fail
        what = error.problems[0].what if isinstance(error, FleetError) else str(error).partition("\n")[0]
        job.networks[model.name] = what


def _copy(
    source: Path, target: Path, model: ServedModel, *, copy: Callable[[Path, Path], object] = shutil.copyfile
) -> None:
    try:
        copy(source, target)
    except OSError as error:
        raise FleetError.of(
            what=f"cannot copy {source.name!r}: {error.strerror}",
            where=f"the files of the model {model.name!r}: {source}",
            fix=f"the weights are the one file {source.parent.name!r}: name that, or a folder of weights"
            if isinstance(error, NotADirectoryError)
            else "correct its name in the declaration, or add the file",
            rule="model-file",
        ) from error


def _derive(model: Network, job: Job, signature: Signature) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    filled = {control.name for control in controls_of(model)}
    inputs = [tensor for tensor in signature.inputs if tensor.name not in filled]
    declared = model.inputs if isinstance(model, PyTorchNetwork) else None
    return served_tensors(
        replace(signature, inputs=inputs),
        name=model.name,
        backend=_backend(model, job).backend,
        max_batch_size=model.max_batch_size,
        release=job.release,
        declared=declared and [tensor for tensor in declared if tensor.name not in filled],
    )


def _backend(model: ServedModel, job: Job) -> Any:
    """Return the backend that serves a model: on CPUs, ONNX Runtime serves the file of a plan."""
    return OnnxRuntime() if job.cpu and isinstance(model.backend, TensorRt) else model.backend


def _configure(
    model: ServedModel,
    build: ModelDefinition,
    job: Job,
    *,
    tensors: tuple[Sequence[Tensor], Sequence[Tensor]],
    parameters: Mapping[str, str] | None = None,
    options: Mapping[str, bool] | None = None,
) -> ModelConfig:
    config = plain(
        name=model.name,
        backend=model.backend.backend,
        max_batch_size=model.max_batch_size,
        inputs=tensors[0],
        outputs=tensors[1],
        instances=model.instances.count,
        kind=model.instances.kind,
        batching=model.batching,
        parameters=parameters,
    )
    if isinstance(model, DaliPipeline) and model.batching is not None:
        for tensor in config.input:
            tensor.allow_ragged_batch = -1 in tensor.dims
    if model.instances.gpu_memory_mb is not None:
        config.parameters[GPU_MEMORY].string_value = str(model.instances.gpu_memory_mb)
    backend = _backend(model, job)
    backend.configure(config)
    warm: Sequence[int] = ()
    if isinstance(backend, TensorRt) and isinstance(model, Network):
        profiles = profile_shapes(model, backend, job.release)
        use_profiles(config, len(profiles), backend, job.release)
        # Each profile loads its kernels when it runs first. A stand-in has none.
        smaller = [] if job.portable else profiles[1:]
        warm = [next(iter(shapes.values())).max[0] + 1 for shapes in smaller]
    if isinstance(backend, OnnxRuntime) and not job.cpu and model.instances.kind != "KIND_CPU":
        backend.configure_gpu(config, switches_tf32=job.release.switches_tf32, **options or {})
    if job.on_gpu and isinstance(backend, OnnxRuntime | LibTorch) and backend.precision == "tf32":
        job.precisions.append("tf32")
    directory = job.root / model.name
    if isinstance(model, Network | TensorFlowGraph):
        _add_labels(model, config, job)
    add_warm_up(model, config, directory, examples=lambda: [*map(build.as_sent, build.examples())], also=warm)
    write_config(config, directory / CONFIG_FILE)
    return config


def _add_labels(model: Network | TensorFlowGraph, config: ModelConfig, job: Job) -> None:
    outputs = {output.name: output for output in config.output}
    for name, file in model.labels.items():
        if name not in outputs:
            raise FleetError.of(
                what=f"labels for {name!r}, which is not an output of {model.name!r}",
                where="labels of its declaration",
                fix=did_you_mean(name, tuple(outputs), otherwise=f"name one of {', '.join(outputs)}"),
                rule="model-labels",
            )
        target = job.root / model.name / Path(file).name
        _copy(job.source / file, target, model)
        outputs[name].label_filename = target.name
