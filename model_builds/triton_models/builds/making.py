"""Creation of the model directories of a declaration: its models, then its own write()."""

from __future__ import annotations

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
from triton_models.builds.tensorrt.options import check_precision
from triton_models.declare.backends import AotInductor, LibTorch, OnnxRuntime, OpenVino, TensorRt
from triton_models.declare.declaration import ModelDefinition
from triton_models.declare.models import (
    DaliPipeline,
    Ensemble,
    Forest,
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
from triton_models.declare.tensors import DynamicDim, ShapeRange, Tensor
from triton_models.facts.tensorrt import SMALL_BATCH, Precision

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from triton_models.artifact.pbtxt import ModelConfig
    from triton_models.facts.releases import Release

BATCH = "batch"
CALLED_MODELS = Path(__file__).with_name("called_models.py")
"""The module that a model which calls others imports."""


def make(build: ModelDefinition, job: Job) -> None:
    """Create every model directory of a declaration.

    Checks that need no export come first: the precision and its tolerance, the environments, and the
    availability of the weights.
    """
    from triton_models.builds.export.weights import described, fetch

    check_backends(build, job.release)
    check_requires(build.requires, release=job.release)
    compiles = job.compiler is not None and not job.rehearsed
    for model in build.models:
        if compiles and isinstance(model, PyTorchNetwork | OnnxFile) and isinstance(model.backend, TensorRt):
            check_precision(job.release, build.precision(model))
    raise_if_any(environment_problems(build, job))
    build.check_tolerance(_precisions(build, job))
    if build.weights is not None:
        fetch(build.weights)
        job.sources["weights"] = described(build.weights)
    configs: dict[str, ModelConfig] = {}
    ensembles = [model for model in build.models if isinstance(model, Ensemble)]
    for model in build.models:
        if not isinstance(model, Ensemble):
            configs[model.name] = _MAKERS[type(model)](model, build, job)
    for ensemble in ensembles:
        job.model(derived_ensemble(ensemble, configs))
    add_environments(build, job)
    if build.write is not None:
        build.write(job)
        build.check_tolerance(job.precisions or ["fp32"])


def _precisions(build: ModelDefinition, job: Job) -> set[Precision]:
    """Return the precisions of the build: those declared, and without plans those of the files."""
    without_plans = set(build.precisions_without_gpu(cpu=job.cpu))
    if not without_plans and build.write is None:
        without_plans = {"fp32"}
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
        if isinstance(model.backend, AotInductor):
            return _make_compiled(network, complete, model.backend, build, job)
        return _make_exported(network, complete, build, job)
    except Exception as error:
        tensors = example_tensors(complete.inputs, batches=model.max_batch_size > 0)
        raise_if_any(type_problems(network, tensors, name=model.name, from_examples=not model.inputs))
        raise_if_any(_export_problems(error, model, job))
        raise


def _export_problems(error: Exception, model: PyTorchNetwork, job: Job) -> Iterator[Problem]:
    """Yield the first line of an error behind the exporter's own, which is about the exporter's steps."""
    import torch

    cause: BaseException = error
    while isinstance(cause, torch.onnx.OnnxExporterError) and cause.__cause__ is not None:
        cause = cause.__cause__
    if not isinstance(error, torch.onnx.OnnxExporterError):
        return
    said = next((line.strip() for line in str(cause).splitlines() if line.strip()), "")
    line = blame(cause, job.source)
    yield Problem(
        what=f"{model.name!r} cannot be exported to ONNX: {type(cause).__name__}: {said}",
        where=place_of(model, "network", job.source) if line == str(job.source) else line,
        fix="change that line, such as to torch.where, or serve the network as TorchScript: "
        'backend=LibTorch(export="script")',
        rule="onnx-export",
    )


def _make_exported(
    network: torch.nn.Module, model: PyTorchNetwork, build: ModelDefinition, job: Job
) -> ModelConfig:
    from triton_models.builds.export.attention import simplify_attention
    from triton_models.builds.export.compared import run_module
    from triton_models.builds.export.fused import fuse
    from triton_models.builds.export.onnx import OPSET, export_network

    path = job.folder(model.name) / "model.onnx"
    plan = isinstance(model.backend, TensorRt)
    export_network(network, model, path, opset=job.release.plan_opset if plan else OPSET)
    _check_outputs(model, [each.name for each in onnx_signature(path).outputs], job)
    source = run_module(network, [tensor.name for tensor in model.inputs], model.outputs)

    def rewrite() -> None:
        simplify_attention(path, model)
        if isinstance(model.backend, OnnxRuntime):
            fuse(path, model, job.release)

    return _finish(path, source, model, build, job, rewrite=rewrite)


def _finish(
    path: Path,
    source: Callable[[Any], Any] | None,
    model: PyTorchNetwork | OnnxFile,
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
    verified.lower()
    config = _configure_network(model, build, job, job.signature(path), options=verified.gpu_options())
    if isinstance(model.backend, TensorRt):
        _compile(path, model, model.backend, job, precision=verified.precision_of_plan())
    return config


def _check_tensors(path: Path, model: PyTorchNetwork | OnnxFile, job: Job) -> None:
    """Refuse tensors that cannot be served; ONNX Runtime knows more of them than the file may say."""
    try:
        _derive(model, job, onnx_signature(path))
    except FleetError:
        _derive(model, job, job.signature(path))


def _check_outputs(model: PyTorchNetwork, exported: Sequence[str], job: Job) -> None:
    """Refuse a number of outputs other than declared: the exporter names those without a name itself."""
    if len(exported) != len(model.outputs):
        raise FleetError.of(
            what=f"{len(model.outputs)} outputs are declared, {', '.join(model.outputs)}; forward() returns "
            f"{len(exported)}",
            where=place_of(model, "outputs", job.source),
            fix="correct outputs=[...], or what forward() returns",
            rule="network-outputs",
        )


def _make_torchscript(
    network: torch.nn.Module, model: PyTorchNetwork, backend: LibTorch, build: ModelDefinition, job: Job
) -> ModelConfig:
    import torch

    from triton_models.builds.export.pytorch import export_torchscript
    from triton_models.builds.verified import compare_module

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
    )
    config = _configure_network(model, build, job, signature)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of deprecation
        finished = torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
    compare_module(network, finished, model, build, job, inputs=signature.inputs)
    return config


def _make_compiled(
    network: torch.nn.Module, model: PyTorchNetwork, backend: AotInductor, build: ModelDefinition, job: Job
) -> ModelConfig:
    import torch

    from triton_models.builds.export.pytorch import compile_network
    from triton_models.builds.verified import compare_module

    device = "cuda" if job.compiler and not job.rehearsed else "cpu"
    path = job.folder(model.name) / "model.pt2"
    signature = compile_network(
        network,
        path,
        name=model.name,
        inputs=model.inputs,
        outputs=model.outputs,
        device=device,
        tf32=backend.tf32,
        max_autotune=backend.max_autotune,
    )
    job.add_machine_code(path, precision=backend.precision, hardware=backend.hardware)
    config = _configure_network(model, build, job, signature)
    finished = torch._inductor.aoti_load_package(str(path))
    compare_module(network, finished, model, build, job, inputs=signature.inputs, device=device)
    return config


def _make_onnx(model: OnnxFile, build: ModelDefinition, job: Job) -> ModelConfig:
    from triton_models.builds.export.onnx import check_onnx, copy_onnx, optimize_onnx

    path = job.folder(model.name) / "model.onnx"
    _copy(_weights(model, build), path, model, copy=copy_onnx)
    check_onnx(path)
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
    if refused := gpu_refuses_forest(model, shape, job.release):
        model = _on_cpu(model, refused, job.release)
    config = _configure(
        model, build, job, tensors=tensors(model, shape), parameters=parameters(model, shape, job.release)
    )
    if list(config.output[0].dims) == [1]:
        # The backend drops sizes of 1 from its answers; with a reshape, the server puts them back.
        config.output[0].reshape.shape.append(1)
        write_config(config, job.root / model.name / CONFIG_FILE)
    return config


def _on_cpu(forest: Forest, refused: str, release: Release) -> Forest:
    """Place a forest on the CPU that the release's GPU importer would end its server on."""
    if forest.instances.kind == "KIND_GPU":
        raise FleetError.of(
            what=f"release {release.name} cannot load {forest.name!r} on a GPU: it has {refused}",
            where=f"the instances of {forest.name!r}",
            why="loading it would end the server, with all its models",
            fix="remove kind: the build then places it on the CPU, with the same answers",
            rule="forest-gpu",
        )
    if forest.instances.kind != "KIND_CPU":
        sys.stderr.write(
            f"note: {forest.name} runs on the CPU: it has {refused}, which release {release.name} cannot "
            "load on a GPU\n"
        )
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
    """Record the weights of a model that are not the declaration's."""
    from triton_models.builds.export.weights import described

    if model.weights is not None:
        job.sources[f"weights:{model.name}"] = described(model.weights)


def _count(onnx: Path, model: PyTorchNetwork | OnnxFile, build: ModelDefinition, job: Job) -> None:
    """Record what a network costs: of one row, and of the largest usual batch.

    The values that are alive at once are those of the largest sizes, because requests may have them.
    """
    from triton_models.builds.floor import BATCHES, costs_of

    largest = max(each for each in BATCHES if each <= max(1, model.max_batch_size))
    try:
        usual = most = costs_of(onnx, model, build, batches=sorted({1, largest}))
        if usual_sizes(model) != largest_sizes(model):
            most = costs_of(onnx, model, build, batches=sorted({1, largest}), sizes="largest")
        both = zip(usual, most, strict=True)
        job.networks[model.name] = [replace(cost, live=big.live).as_dict() for cost, big in both]
    except Exception as error:  # noqa: BLE001  of ONNX's inference: the record is no reason to fail
        what = error.problems[0].what if isinstance(error, FleetError) else str(error).partition("\n")[0]
        job.networks[model.name] = what


def _compile(
    onnx: Path, model: PyTorchNetwork | OnnxFile, backend: TensorRt, job: Job, *, precision: Precision
) -> None:
    job.compile_plan(
        onnx,
        shapes=_profiles(model, backend, job.release),
        precision=precision,
        hardware=backend.hardware,
        workspace_mb=backend.workspace_mb,
        optimization_level=backend.optimization_level,
        plugins=backend.plugins,
    )


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


def _derive(
    model: PyTorchNetwork | OnnxFile, job: Job, signature: Signature
) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """Derive the inputs and outputs of a network's configuration."""
    filled = {each.name for each in controls_of(model)}
    signature = replace(signature, inputs=[each for each in signature.inputs if each.name not in filled])
    declared = model.inputs if isinstance(model, PyTorchNetwork) else None
    return served_tensors(
        signature,
        name=model.name,
        backend="onnxruntime" if job.cpu and isinstance(model.backend, TensorRt) else model.backend.backend,
        max_batch_size=model.max_batch_size,
        release=job.release,
        declared=declared and [each for each in declared if each.name not in filled],
    )


def _configure_network(
    model: PyTorchNetwork | OnnxFile,
    build: ModelDefinition,
    job: Job,
    signature: Signature,
    *,
    options: Mapping[str, bool] | None = None,
) -> ModelConfig:
    return _configure(model, build, job, tensors=_derive(model, job, signature), options=options)


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
        kind="KIND_CPU" if isinstance(model.backend, OpenVino) else model.instances.kind,
        batching=model.batching,
        parameters=parameters,
    )
    if isinstance(model, DaliPipeline) and model.batching is not None:
        for each in config.input:
            each.allow_ragged_batch = -1 in each.dims
    if model.instances.gpu_memory_mb is not None:
        config.parameters[GPU_MEMORY].string_value = str(model.instances.gpu_memory_mb)
    backend = OnnxRuntime() if job.cpu and isinstance(model.backend, TensorRt) else model.backend
    backend.configure(config)
    warm: Sequence[int] = ()
    if isinstance(backend, TensorRt) and isinstance(model, PyTorchNetwork | OnnxFile):
        profiles = _profiles(model, backend, job.release)
        _use_profiles(config, len(profiles), backend, job.release)
        # Each profile loads its kernels when it runs first. A stand-in has none.
        smaller = () if job.portable else [next(iter(each.values())) for each in profiles[1:]]
        warm = [each.max[0] + 1 for each in smaller]
    if isinstance(backend, OnnxRuntime) and not job.cpu and model.instances.kind != "KIND_CPU":
        backend.configure_gpu(config, switches_tf32=job.release.switches_tf32, **options or {})
    on_gpu = job.compiler is not None and not job.rehearsed
    if on_gpu and isinstance(backend, OnnxRuntime | LibTorch) and backend.precision == "tf32":
        job.precisions.append("tf32")
    if isinstance(backend, OpenVino):
        job.precisions.append(backend.precision)
    directory = job.root / model.name
    if isinstance(model, PyTorchNetwork | OnnxFile | TensorFlowGraph):
        _add_labels(model, config, job)
    add_warm_up(model, config, directory, examples=build.examples, also=warm)
    write_config(config, directory / CONFIG_FILE)
    return config


def _add_labels(model: PyTorchNetwork | OnnxFile | TensorFlowGraph, config: ModelConfig, job: Job) -> None:
    outputs = {each.name: each for each in config.output}
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


def _profiles(
    model: PyTorchNetwork | OnnxFile, backend: TensorRt, release: Release
) -> list[Mapping[str, ShapeRange]]:
    """Return the shapes of a plan's profiles: of all batches, and maybe of the small ones.

    A server that is given no profile uses the first.
    """
    if isinstance(model, OnnxFile):
        shapes = dict(model.profile)
    else:
        shapes = {tensor.name: _range(tensor, model) for tensor in model.inputs}
    small = backend.small_batch
    if small is None:
        pays = release.sizes_contexts and all(each.opt[:1] > (SMALL_BATCH,) for each in shapes.values())
        small = SMALL_BATCH if pays else 0
    if not model.max_batch_size or not shapes or any(each.min[:1] > (small,) for each in shapes.values()):
        return [shapes]
    smaller = {
        name: replace(each, opt=(*each.min[:1], *each.opt[1:]), max=(small, *each.max[1:]))
        for name, each in shapes.items()
    }
    return [shapes, smaller]


def _use_profiles(config: ModelConfig, profiles: int, backend: TensorRt, release: Release) -> None:
    """Give each instance all profiles of its plan: the backend selects one for each batch.

    It takes the profile whose tuned shape is closest (GetMostOptimizedProfile in src/instance_state.cc of
    tensorrt_backend, r24.03 to r25.09, read 2026-11-26). The scheduler ignores profiles, so an instance with
    the small one alone would get batches that it must refuse.
    """
    if profiles > 1:
        config.instance_group[0].profile.extend(map(str, range(profiles)))
        if backend.context_memory is None and release.sizes_contexts:
            config.parameters["execution_context_allocation_strategy"].string_value = "ON_PROFILE_CHANGE"


def _range(tensor: Tensor, model: PyTorchNetwork) -> ShapeRange:
    """Return the shapes of one input that a plan accepts: every batch size, and every declared size."""
    sizes = [
        size if isinstance(size, DynamicDim) else DynamicDim(name="fixed", min=size, max=size)
        for size in tensor.dims
    ]
    if model.max_batch_size:
        largest, backend = model.max_batch_size, model.backend
        best = backend.tuned_batch(largest, model.batching) if isinstance(backend, TensorRt) else None
        sizes.insert(0, DynamicDim(name=BATCH, opt=best, max=largest))
    return ShapeRange(
        min=tuple(size.min for size in sizes),
        opt=tuple(size.usual for size in sizes),
        max=tuple(size.max for size in sizes),
    )
