"""Configurations derived from a network's inputs and outputs, or from an ensemble's steps.

Nothing is guessed: anything that Triton cannot serve unchanged is an error before the model is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from triton_models.artifact.networks import NetworkTensor, Signature
from triton_models.base.checks import Check, Report
from triton_models.declare.ensembles import Interface, connect
from triton_models.declare.models import Ensemble
from triton_models.declare.network_types import check_types
from triton_models.declare.tensors import Tensor
from triton_models.facts.releases import Release

if TYPE_CHECKING:
    from triton_models.artifact.pbtxt import ModelConfig

_SOURCE = "2026-11-21: Triton's model_configuration.md, and the backends' checks of a configuration"
ENSEMBLE_STEPS = Check(id="ensemble-steps", source=_SOURCE)
NETWORK_SHAPE = Check(id="network-shape", source=_SOURCE)
NETWORK_BATCH = Check(id="network-batch", source=_SOURCE)
NETWORK_DECLARED = Check(id="network-declared", source=_SOURCE)


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

    Args:
        signature: The network's inputs and outputs.
        name: The model's name, for errors.
        backend: The backend that runs it; TensorRT and OpenVINO support fewer types.
        max_batch_size: 0 if the tensors have no batch dimension.
        release: The Triton release, for the types of its TensorRT.
        declared: The declared inputs, to compare with.

    Raises:
        FleetError: The network cannot be served as declared; all problems are reported together.
    """
    batches = max_batch_size > 0
    report = Report(f"the network of {name!r}")
    types = ((what, tensor.data_type) for what, tensor in _sides(signature))
    check_types(report, types, backend=backend, release=release)
    _check_shapes(report, signature, batches=batches)
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

    Args:
        ensemble: The ensemble.
        models: The configuration of each of its steps, by name.

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
    dims = (tensor.dims or ())[1 if batches else 0 :]
    return Tensor(
        tensor.name, tensor.data_type, tuple(size if isinstance(size, int) else -1 for size in dims)
    )


def _sides(signature: Signature) -> Iterator[tuple[str, NetworkTensor]]:
    yield from ((f"input {tensor.name!r}", tensor) for tensor in signature.inputs)
    yield from ((f"output {tensor.name!r}", tensor) for tensor in signature.outputs)


def _check_shapes(report: Report, signature: Signature, *, batches: bool) -> None:
    for what, tensor in _sides(signature):
        if not tensor.data_type.startswith("TYPE_"):
            continue  # already reported, and has no shape
        if tensor.dims is None:
            fix = "run onnx.shape_inference.infer_shapes on the file, or export it with named dimensions"
            report(NETWORK_SHAPE, f"{what} has an unknown number of dimensions", fix=fix)
        elif len(tensor.dims) <= (1 if batches else 0):
            shape = f"{what} has the shape {_shown(tensor)}, which leaves no dimension for the configuration"
            fix = "unsqueeze it inside the network, or write the configuration yourself with dims [1] and "
            report(NETWORK_SHAPE, shape, fix=f"{fix}reshape {{ shape: [] }}", why="dims cannot be empty")
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
