"""Inputs of a network whose types it cannot take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from triton_models.base.errors import Problem
from triton_models.declare.inferred import TYPES

if TYPE_CHECKING:
    import torch


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
                    fix=f"use np.{right} in examples(), or cast it in forward()"
                    if from_examples
                    else f"declare it as {TYPES.get(right, 'BF16')}, or cast it in forward()",
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
