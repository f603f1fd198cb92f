"""Inputs of a network that are taken from the examples of its declaration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.declare.declaration import Example, ModelDefinition
from triton_models.declare.mistakes import BAD_DECLARATION, find_mistakes
from triton_models.declare.models import PyTorchNetwork
from triton_models.declare.tensors import NUMPY_TYPES, Tensor

_TYPES = MappingProxyType({**{theirs: ours for ours, theirs in NUMPY_TYPES.items()}, "object": "STRING"})


def with_inputs_of_examples(network: PyTorchNetwork, build: ModelDefinition) -> PyTorchNetwork:
    """Return a network with the names, types and shapes of the first example as its inputs.

    Raises:
        FleetError: There is no example, examples differ in a size, or the network cannot take an input.
    """
    examples = list(build.examples())
    where = f"the inputs of {network.name!r}"
    if not examples:
        raise FleetError.of(
            what=f"{network.name!r} has neither inputs nor an example",
            where=where,
            expected="inputs=[...], or an example to take them from",
            fix="return an example from examples()",
            rule="inputs-unknown",
        )
    skipped = 1 if network.max_batch_size else 0
    inputs = [Tensor(name, _type(value), value.shape[skipped:]) for name, value in examples[0].first.items()]
    raise_if_any(_differences(inputs, examples, skipped, where))
    complete = replace(network, inputs=inputs)
    raise_if_any(
        BAD_DECLARATION.problem(what=each.what, where=where, expected=each.expected, fix=each.fix)
        for _, each in find_mistakes(complete)
    )
    return complete


def _differences(
    inputs: list[Tensor], examples: list[Example], skipped: int, where: str
) -> Iterator[Problem]:
    for tensor in inputs:
        shapes = {each.first[tensor.name].shape[skipped:] for each in examples if tensor.name in each.inputs}
        if len(shapes) > 1:
            listed = " and ".join(str(list(shape)) for shape in sorted(shapes))
            yield Problem(
                what=f"the examples have {tensor.name!r} with the shapes {listed}",
                where=where,
                expected="examples of one shape, or declared inputs with the range of each size",
                fix=f'write inputs=[Tensor("{tensor.name}", "{tensor.data_type}", [DynamicDim(...), ...])]',
                rule="inputs-unknown",
            )


def _type(value: Any) -> str:
    """Return Triton's name of an array's type."""
    name = str(value.dtype.name)
    return _TYPES.get(name, name.upper())
