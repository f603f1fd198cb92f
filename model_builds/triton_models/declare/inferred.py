"""Inputs of a network, taken from the examples of its declaration."""

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

TYPES = MappingProxyType({**{theirs: ours for ours, theirs in NUMPY_TYPES.items()}, "object": "STRING"})
"""Triton's names of types, by NumPy's."""


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
            fix="write inputs=[...], or return an example from examples()",
            rule="inputs-unknown",
        )
    skipped = 1 if network.max_batch_size else 0
    inputs = [
        Tensor(name, type_of(value), value.shape[skipped:]) for name, value in examples[0].first.items()
    ]
    raise_if_any(_differences(inputs, examples, skipped, where))
    complete = replace(network, inputs=inputs)
    raise_if_any(
        BAD_DECLARATION.problem(what=each.what, where=where, fix=each.fix)
        for _, each in find_mistakes(complete)
    )
    return complete


def _differences(
    inputs: list[Tensor], examples: list[Example], skipped: int, where: str
) -> Iterator[Problem]:
    for tensor in inputs:
        given = [each.first[tensor.name] for each in examples if tensor.name in each.inputs]
        types = {type_of(each) for each in given}
        if len(types) > 1:
            yield Problem(
                what=f"the examples have {tensor.name!r} as {' and '.join(sorted(types))}",
                where=where,
                fix=f"convert them in examples(), such as with .astype(np.{given[0].dtype.name})",
                rule="inputs-unknown",
            )
        shapes = {each.shape[skipped:] for each in given}
        if len(shapes) > 1:
            listed = " and ".join(str(list(shape)) for shape in sorted(shapes))
            yield Problem(
                what=f"the examples have {tensor.name!r} with the shapes {listed}",
                where=where,
                fix=f'write inputs=[Tensor("{tensor.name}", "{tensor.data_type}", [DynamicDim(...), ...])]',
                rule="inputs-unknown",
            )


def type_of(value: Any) -> str:
    """Return Triton's name of an array's type."""
    name = str(value.dtype.name)
    return TYPES.get(name, name.upper())
