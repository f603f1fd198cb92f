"""What a build derives for config.pbtxt: tensors of a network, an ensemble from its steps, and warm-up.

Nothing is guessed: anything that Triton cannot serve unchanged is an error before the model is loaded.

A warm-up of batch size N runs N requests of one row together, all with the same data
(GenerateWarmupData in src/backend_model_instance.cc of Triton core, main, read on 2026-11-21).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.artifact.networks import NetworkTensor, Signature
from triton_models.base.checks import Check, Report
from triton_models.base.errors import FleetError
from triton_models.base.suggest import did_you_mean
from triton_models.declare.backends import LibTorch
from triton_models.declare.declaration import Example, Tensors
from triton_models.declare.ensembles import Interface, connect
from triton_models.declare.models import Ensemble, Forest, Network, OnnxFile, ServedModel
from triton_models.declare.network_inputs import check_types
from triton_models.declare.tensors import DynamicDim, Tensor
from triton_models.facts.releases import Release

if TYPE_CHECKING:
    from triton_models.artifact.pbtxt import ModelConfig

_SOURCE = "2026-11-21: Triton's model_configuration.md, and the backends' checks of a configuration"
ENSEMBLE_STEPS = Check(id="ensemble-steps", source=_SOURCE)
NETWORK_SHAPE = Check(id="network-shape", source=_SOURCE)
NETWORK_BATCH = Check(id="network-batch", source=_SOURCE)
NETWORK_DECLARED = Check(id="network-declared", source=_SOURCE)

WARM_UP = "warmup"
"""The folder for warm-up data inside the model directory."""


def served_tensors(
    signature: Signature,
    *,
    name: str,
    backend: str,
    max_batch_size: int,
    release: Release,
    declared: Sequence[Tensor] | None = None,
) -> tuple[list[Tensor], list[Tensor]]:
    """Derive the inputs and outputs of config.pbtxt from a network.

    The batch dimension is detected and omitted, open sizes become -1, and data types become Triton's.
    """
    batches = max_batch_size > 0
    report = Report(f"the network of {name!r}")
    types = ((what, tensor.data_type) for what, tensor in _sides(signature))
    check_types(report, types, backend=backend, release=release)
    _check_shapes(report, signature, batches=batches, keeps_scalars=backend != "onnxruntime")
    if batches:
        _check_batches(report, signature)
    report.raise_if_any()
    inputs = [_served(tensor, batches=batches) for tensor in signature.inputs]
    if declared is not None:
        _check_declared(report, inputs, declared)
    report.raise_if_any()
    return inputs, [_served(tensor, batches=batches) for tensor in signature.outputs]


def derived_ensemble(ensemble: Ensemble, models: Mapping[str, ModelConfig]) -> ModelConfig:
    """Derive the configuration of an ensemble, whose tensors are those of its steps.

    Raises:
        FleetError: Its steps do not fit together.
    """
    from triton_models.artifact import pbtxt as config

    connected = connect(ensemble, {name: _interface(each) for name, each in models.items()})
    report = Report(f"the steps of {ensemble.name!r}, by their configurations")
    for mistake in connected.mistakes:
        report.add(
            [
                ENSEMBLE_STEPS.problem(
                    what=mistake.what,
                    where=report.where,
                    why="Triton refuses such an ensemble",
                    fix=mistake.fix,
                )
            ]
        )
    report.raise_if_any()
    sizes = [models[step.model_name].max_batch_size for step in connected.steps]
    return config.ensemble(
        name=ensemble.name,
        max_batch_size=min(sizes),
        inputs=connected.inputs,
        outputs=connected.outputs,
        steps=connected.steps,
    )


def _interface(model: ModelConfig) -> Interface:
    from triton_models.artifact.pbtxt import schema

    def tensors(side: Iterable[ModelConfig]) -> list[Tensor]:
        return [Tensor(each.name, schema().DataType.Name(each.data_type), tuple(each.dims)) for each in side]

    return Interface(
        inputs=tensors(model.input), outputs=tensors(model.output), batches=model.max_batch_size > 0
    )


def _served(tensor: NetworkTensor, *, batches: bool) -> Tensor:
    dims = tuple(size if isinstance(size, int) else -1 for size in (tensor.dims or ())[1 if batches else 0 :])
    if dims:
        return Tensor(tensor.name, tensor.data_type, dims)
    # As AutoCompleteIO of onnxruntime_backend (r23.10 to r26.05, read 2026-11-28).
    return Tensor(tensor.name, tensor.data_type, (1,), reshape=() if batches else None)


def _sides(signature: Signature) -> Iterator[tuple[str, NetworkTensor]]:
    yield from ((f"input {tensor.name!r}", tensor) for tensor in signature.inputs)
    yield from ((f"output {tensor.name!r}", tensor) for tensor in signature.outputs)


def _check_shapes(report: Report, signature: Signature, *, batches: bool, keeps_scalars: bool) -> None:
    for what, tensor in _sides(signature):
        if not tensor.data_type.startswith("TYPE_"):
            continue  # already reported, and has no shape
        if tensor.dims is None:
            fix = "run onnx.shape_inference.infer_shapes on the file, or export it with named dimensions"
            report(NETWORK_SHAPE, f"{what} has an unknown number of dimensions", fix=fix)
        elif len(tensor.dims) <= (1 if batches else 0) and (keeps_scalars or (batches and not tensor.dims)):
            shape = f"{what} has the shape {_shown(tensor)}, which leaves no dimension for the configuration"
            fix = "unsqueeze it inside the network, or serve it with ONNX Runtime"
            if not keeps_scalars:
                fix = "unsqueeze it inside the network, or declare max_batch_size 0"
            report(NETWORK_SHAPE, shape, fix=fix, why="dims cannot be empty")
        elif 0 in tensor.dims:
            shape = f"{what} has the shape {_shown(tensor)}, which is empty"
            report(NETWORK_SHAPE, shape, fix="export it with an example that contains data")


def _check_batches(report: Report, signature: Signature) -> None:
    """Check that the first dimension of each tensor is the open batch dimension."""
    first = [tensor.dims[0] for tensor in signature.inputs if tensor.dims]
    batch = next((size for size in first if isinstance(size, str)), None)
    others = {
        size
        for tensor in signature.inputs
        for size in (tensor.dims or ())[1:]
        if isinstance(size, str) and size != batch
    }
    why = "Triton batches requests along the first dimension of all tensors"
    for what, tensor in _sides(signature):
        if not tensor.dims:
            continue
        size, is_input = tensor.dims[0], what.startswith("input")
        if isinstance(size, int):
            shape = f"{what} has the shape {_shown(tensor)}: its first size is fixed to {size}"
            fix = "export it with a dynamic first dimension, or declare max_batch_size 0"
            report(NETWORK_BATCH, shape, fix=fix, why=why)
        elif isinstance(size, str) and (size in others or (is_input and size != batch)):
            fix = "move the batch to the front inside the network, or declare max_batch_size 0"
            report(NETWORK_BATCH, f"the first size of {what} is {size!r}, not {batch!r}", fix=fix, why=why)


def _check_declared(report: Report, inputs: Sequence[Tensor], declared: Sequence[Tensor]) -> None:
    by_name = {tensor.name: tensor for tensor in inputs}
    for tensor in declared:
        own = by_name.pop(tensor.name, None)
        if own is None or own.full_type != tensor.full_type or own.sizes != tensor.sizes:
            has = f"{own.full_type} {list(own.sizes)}" if own else "no input of that name"
            what = f"input {tensor.name!r} is declared as {tensor.full_type} {list(tensor.sizes)}"
            fix = f"declare it as in the network, which has {has}, or cast inside the network"
            report(NETWORK_DECLARED, what, fix=fix)
    for name in by_name:
        report(NETWORK_DECLARED, f"the input {name!r} of the network is not declared", fix="declare it")


def _shown(tensor: NetworkTensor) -> str:
    sizes = ("?" if size is None else str(size) for size in tensor.dims or ())
    return f"[{', '.join(sizes)}]"


def add_warm_up(
    model: ServedModel,
    config: ModelConfig,
    directory: Path,
    *,
    examples: Callable[[], list[Example]],
    also: Sequence[int] = (),
) -> None:
    """Add a model's warm-up to its configuration, and the example's data to its directory.

    Batch sizes in `also` are added if the declared ones are smaller.
    """
    if model.warm_up is None:
        return
    name = model.warm_up.example
    rows = _first_row(_find(model, name, examples()), config, model) if name is not None else None
    data = {tensor.name: _data(tensor, rows) for tensor in config.input}
    sizes = usual_sizes(model)
    declared = model.warm_up.batch_sizes
    for batch in [*declared, *(each for each in also if each > max(declared))]:
        sample = config.model_warmup.add(name=f"batch of {batch}", batch_size=batch)
        if (count := model.warm_up.count or (3 if isinstance(model.backend, LibTorch) else 1)) > 1:
            sample.count = count  # Triton's default is one
        for tensor in config.input:
            entry = sample.inputs[tensor.name]
            entry.data_type = tensor.data_type
            if rows is not None:
                entry.dims.extend(rows[tensor.name].shape)
                entry.input_data_file = tensor.name
            else:
                entry.dims.extend(_dims(tensor, sizes.get(tensor.name), model))
                entry.zero_data = True
    for tensor_name, content in data.items():
        if content is not None:
            (directory / WARM_UP).mkdir(exist_ok=True)
            (directory / WARM_UP / tensor_name).write_bytes(content)


def usual_sizes(model: ServedModel) -> dict[str, Sequence[int]]:
    """Return the usual sizes of the inputs that have them, without the batch."""
    if isinstance(model, OnnxFile):
        skip = 1 if model.max_batch_size else 0
        return {name: shapes.opt[skip:] for name, shapes in model.profile.items()}
    if isinstance(model, Forest):
        return {}
    return {
        tensor.name: [size.usual if isinstance(size, DynamicDim) else size for size in tensor.dims]
        for tensor in model.inputs
        if isinstance(tensor, Tensor)
    }


def largest_sizes(model: Network) -> dict[str, Sequence[int]]:
    """Return the largest sizes of the inputs whose sizes are declared, without the batch."""
    if isinstance(model, OnnxFile):
        skip = 1 if model.max_batch_size else 0
        return {name: shapes.max[skip:] for name, shapes in model.profile.items()}
    return {
        tensor.name: [size.max if isinstance(size, DynamicDim) else size for size in tensor.dims]
        for tensor in model.inputs
        if isinstance(tensor, Tensor)
    }


def _dims(tensor: Any, usual: Sequence[int] | None, model: ServedModel) -> list[int]:
    dims = list(usual if usual is not None else tensor.dims)
    if -1 in dims:
        fix = "use a DynamicDim instead, give a profile, or warm up with an example"
        raise _unfit(model, f"input {tensor.name!r} has the dims {dims}", fix=fix)
    return dims


def _find(model: ServedModel, name: str, examples: Sequence[Example]) -> Example:
    known = {example.name: example for example in examples}
    if name not in known:
        fix = did_you_mean(name, known, otherwise=f"use one of {', '.join(known)}")
        raise _unfit(model, f"the example {name!r} does not exist", fix=fix)
    return known[name]


def _first_row(example: Example, config: ModelConfig, model: ServedModel) -> Tensors:
    names = [tensor.name for tensor in config.input]
    if missing := [name for name in names if name not in example.inputs]:
        fix = f"use an example with {', '.join(names)}, or none, which sends zeros"
        raise _unfit(model, f"the example {example.name!r} has no {', '.join(missing)}", fix=fix)
    return {name: example.first[name][0] if config.max_batch_size else example.first[name] for name in names}


def _data(tensor: Any, rows: Tensors | None) -> bytes | None:
    if rows is None:
        return None
    row = rows[tensor.name]
    if row.dtype == object:  # strings, each prefixed with its length, as in Triton's binary requests
        return b"".join(struct.pack("<I", len(text)) + text for text in row.ravel())
    return bytes(row.tobytes())


def _unfit(model: ServedModel, what: str, *, fix: str) -> FleetError:
    return FleetError.of(
        what=f"cannot warm up {model.name!r}: {what}",
        where="WarmUp(...) of its declaration",
        why="a model whose warm-up fails does not load",
        fix=fix,
        rule="warm-up-example",
    )
