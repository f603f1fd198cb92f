"""Configurations derived from a network's inputs and outputs, or from an ensemble's steps.

Nothing is guessed: anything that Triton cannot serve unchanged is an error before the model is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from triton_models.artifact.networks import NetworkTensor, Signature
from triton_models.base.errors import Problem, raise_if_any
from triton_models.declare.ensembles import Interface, connect
from triton_models.declare.models import Ensemble
from triton_models.declare.network_types import type_problems
from triton_models.declare.tensors import Tensor
from triton_models.facts.releases import Release

if TYPE_CHECKING:
    from triton_models.config.pbtxt import ModelConfig


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
    types = ((what, tensor.data_type) for what, tensor in _sides(signature))
    problems = [
        *type_problems(types, backend=backend, release=release, where=""),
        *_shape_problems(signature, batches=max_batch_size > 0),
        *(_batch_problems(signature) if max_batch_size > 0 else ()),
    ]
    raise_if_any(_located(problems, name))
    inputs = [_served(tensor, batches=max_batch_size > 0) for tensor in signature.inputs]
    raise_if_any(_located(_declared_problems(inputs, declared), name) if declared is not None else ())
    return inputs, [_served(tensor, batches=max_batch_size > 0) for tensor in signature.outputs]


def derived_ensemble(ensemble: Ensemble, models: Mapping[str, ModelConfig]) -> ModelConfig:
    """Derive the configuration of an ensemble, whose tensors are those of its steps.

    Args:
        ensemble: The ensemble.
        models: The configuration of each of its steps, by name.

    Raises:
        FleetError: Its steps do not fit together.
    """
    from triton_models.config import pbtxt as config

    connected = connect(ensemble, {name: _interface(each) for name, each in models.items()})
    raise_if_any(
        Problem(
            what=mistake.what,
            where=f"the steps of {ensemble.name!r}, by their configurations",
            expected=mistake.expected,
            why="Triton refuses such an ensemble",
            fix=mistake.fix,
            rule="ensemble-steps",
        )
        for mistake in connected.mistakes
    )
    sizes = [models[step.model_name].max_batch_size for step in connected.steps]
    return config.ensemble(
        name=ensemble.name,
        max_batch_size=min(sizes),
        inputs=connected.inputs,
        outputs=connected.outputs,
        steps=connected.steps,
    )


def _interface(model: ModelConfig) -> Interface:
    from triton_models.config.pbtxt import schema

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


def _shape_problems(signature: Signature, *, batches: bool) -> Iterator[Problem]:
    for what, tensor in _sides(signature):
        if not tensor.data_type.startswith("TYPE_"):
            continue  # already reported, and has no shape
        if tensor.dims is None:
            yield _problem(
                "network-shape",
                f"{what} has an unknown number of dimensions",
                expected="a shape, which may have open sizes",
                why="config.pbtxt states the number of dimensions",
                fix="run onnx.shape_inference.infer_shapes on the file, or export it with named dimensions",
            )
        elif len(tensor.dims) <= (1 if batches else 0):
            yield _problem(
                "network-shape",
                f"{what} has the shape {_shown(tensor)}, which leaves no dimension for the configuration",
                expected="at least one more dimension",
                why="dims cannot be empty",
                fix="unsqueeze it inside the network, or write the configuration yourself with dims [1] and "
                "reshape { shape: [] }",
            )
        elif 0 in tensor.dims:
            yield _problem(
                "network-shape",
                f"{what} has the shape {_shown(tensor)}, which is empty",
                expected="sizes of 1 or more",
                why="Triton refuses a dimension of 0",
                fix="export it with an example that contains data",
            )


def _batch_problems(signature: Signature) -> Iterator[Problem]:
    """Yield a problem for each tensor whose first dimension is not the open batch dimension."""
    first = [tensor.dims[0] for tensor in signature.inputs if tensor.dims]
    batch = next((size for size in first if isinstance(size, str)), None)
    others = {
        size
        for tensor in signature.inputs
        for size in (tensor.dims or ())[1:]
        if isinstance(size, str) and size != batch
    }
    for what, tensor in _sides(signature):
        if not tensor.dims:
            continue
        size, is_input = tensor.dims[0], what.startswith("input")
        if isinstance(size, int):
            yield _problem(
                "network-batch",
                f"{what} has the shape {_shown(tensor)}: its first size is fixed to {size}",
                expected="an open first dimension, for the batch",
                why="with a max_batch_size above 0 the first dimension is the batch size",
                fix="export it with a dynamic first dimension, or declare max_batch_size 0",
            )
        elif isinstance(size, str) and (size in others or (is_input and size != batch)):
            yield _problem(
                "network-batch",
                f"the first size of {what} is {size!r}, not {batch!r}",
                expected="the batch as the first dimension of every input and output",
                why="Triton batches requests along the first dimension of all tensors",
                fix="move the batch to the front inside the network, or declare max_batch_size 0",
            )


def _declared_problems(inputs: Sequence[Tensor], declared: Sequence[Tensor]) -> Iterator[Problem]:
    by_name = {tensor.name: tensor for tensor in inputs}
    for tensor in declared:
        own = by_name.pop(tensor.name, None)
        if own is None or own.full_type != tensor.full_type or own.sizes != tensor.sizes:
            has = f"{own.full_type} {list(own.sizes)}" if own else "no input of that name"
            yield _problem(
                "network-declared",
                f"input {tensor.name!r} is declared as {tensor.full_type} {list(tensor.sizes)}",
                expected=f"as in the network: {has}",
                why="a request that follows the declaration would be refused",
                fix="correct the declaration, or cast inside the network",
            )
    for name in by_name:
        yield _problem(
            "network-declared",
            f"the input {name!r} of the network is not declared",
            expected=f"inputs {', '.join(tensor.name for tensor in declared)}",
            why="a request without it would be refused",
            fix="declare it",
        )


def _problem(rule: str, what: str, *, expected: str, why: str, fix: str) -> Problem:
    return Problem(what=what, where="", expected=expected, why=why, fix=fix, rule=rule)


def _located(problems: Iterable[Problem], name: str) -> Iterator[Problem]:
    for problem in problems:
        yield replace(problem, where=f"the network of {name!r}")


def _shown(tensor: NetworkTensor) -> str:
    sizes = ("?" if size is None else str(size) for size in tensor.dims or ())
    return f"[{', '.join(sizes)}]"
