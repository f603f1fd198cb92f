"""Inputs of a network: taken from the examples of its declaration, or of a type that it cannot take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.declare.declaration import Example, ModelDefinition
from triton_models.declare.mistakes import BAD_DECLARATION, find_mistakes
from triton_models.declare.models import PyTorchNetwork
from triton_models.declare.tensors import NUMPY_TYPES, Tensor

if TYPE_CHECKING:
    import torch

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
    inputs = [
        Tensor(name, type_of(value), value.shape[skipped:]) for name, value in examples[0].first.items()
    ]
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
        given = [each.first[tensor.name] for each in examples if tensor.name in each.inputs]
        types = {type_of(each) for each in given}
        if len(types) > 1:
            yield Problem(
                what=f"the examples have {tensor.name!r} as {' and '.join(sorted(types))}",
                where=where,
                expected="examples of one type, because a network has one for each input",
                fix=f"convert them in examples(), such as with .astype(np.{given[0].dtype.name})",
                rule="inputs-unknown",
            )
        shapes = {each.shape[skipped:] for each in given}
        if len(shapes) > 1:
            listed = " and ".join(str(list(shape)) for shape in sorted(shapes))
            yield Problem(
                what=f"the examples have {tensor.name!r} with the shapes {listed}",
                where=where,
                expected="examples of one shape, or declared inputs with the range of each size",
                fix=f'write inputs=[Tensor("{tensor.name}", "{tensor.data_type}", [DynamicDim(...), ...])]',
                rule="inputs-unknown",
            )


def type_problems(
    network: torch.nn.Module, tensors: Mapping[str, torch.Tensor], *, name: str, from_examples: bool
) -> Iterator[Problem]:
    """Yield the inputs whose types a network cannot take, if it can take them in others.

    This runs the network, so it is for one whose export has failed.

    Args:
        network: The network.
        tensors: A tensor of each input.
        name: The model's name.
        from_examples: True if its inputs are those of the first example.
    """
    import torch

    own = next((each.dtype for each in network.parameters() if each.is_floating_point()), torch.float32)
    if _runs(network, tensors):
        return
    for floating, others in ((own, None), (None, own), (own, own), (torch.int64, None)):
        other = {
            tensor: each.to((floating if each.is_floating_point() else others) or each.dtype)
            for tensor, each in tensors.items()
        }
        if not _runs(network, other):
            continue
        for tensor, value in tensors.items():
            given, right = (str(each.dtype).removeprefix("torch.") for each in (value, other[tensor]))
            if given != right:
                yield Problem(
                    what=f"the examples have {tensor} as {given}; the network computes with {right}"
                    if from_examples
                    else f"{tensor} is declared as {given}; the network computes with {right}",
                    where=f"the inputs of {name!r}",
                    expected=f"{tensor} as {right}",
                    fix=f"use np.{right} in examples(), or cast it in forward()"
                    if from_examples
                    else f"declare it as {_TYPES.get(right, 'BF16')}, or cast it in forward()",
                    rule="network-declared",
                )
        return


def _runs(network: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> bool:
    import torch

    try:
        with torch.no_grad():
            network(*tensors.values())
    except (RuntimeError, TypeError, ValueError, IndexError):
        return False
    return True


def type_of(value: Any) -> str:
    """Return Triton's name of an array's type."""
    name = str(value.dtype.name)
    return _TYPES.get(name, name.upper())
