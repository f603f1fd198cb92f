"""Inputs with which a network of PyTorch is traced: of the user's examples, or made up and taken by it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from triton_models.base.encoding import Tensors
from triton_models.builds.export.accepted import accepted_by_module
from triton_models.builds.export.onnx import example_tensors
from triton_models.builds.export.probed import with_numbers
from triton_models.declare.tensors import Between, Tensor

if TYPE_CHECKING:
    import torch


def accepted_tensors(
    network: torch.nn.Module,
    inputs: Sequence[Tensor],
    *,
    batches: bool,
    written: Sequence[Tensors] = (),
    ranges: Mapping[str, Between] | None = None,
) -> dict[str, torch.Tensor]:
    """Return inputs of the sizes of `example_tensors` that a network answers.

    Raises:
        Exception: What the network raises for the first of them, because it refuses them all.
    """
    import torch

    plain = example_tensors(inputs, batches=batches)
    refused: Exception | None = None
    for request in _requests(network, plain, written, ranges or {}):
        tensors = {name: torch.tensor(request[name]).to(plain[name].dtype) for name in plain}
        try:
            with torch.no_grad():
                network(*tensors.values())
        except Exception as error:  # noqa: BLE001  whatever a framework raises
            refused = refused or error
        else:
            return tensors
    raise refused or AssertionError


def _requests(
    network: torch.nn.Module,
    plain: Mapping[str, torch.Tensor],
    written: Sequence[Tensors],
    ranges: Mapping[str, Between],
) -> Iterator[Tensors]:
    """Yield the user's examples, then zeros and ones, ones, and numbers that the network knows.

    In what may be a mask, zeros and ones alternate also next to an example: its own may hide nothing.
    """
    made = {name: value.double().numpy() for name, value in plain.items()}
    made |= {name: np.clip(made[name], span.low, span.high) for name, span in ranges.items() if name in made}
    for request in written:
        own = {name: _fitted(request[name], made[name].shape) for name in made}
        masks = [name for name in made if name not in ranges and np.isin(request[name], (0, 1)).all()]
        yield {**own, **{name: made[name] for name in masks}}
        yield own
    yield made
    accepted, _ = accepted_by_module(network, plain)
    whole = {name: value.numpy() for name, value in plain.items() if not value.is_floating_point()}
    numbers = {name: known.constants for name, known in accepted.items()}
    yield from itertools.islice(with_numbers({**made, **whole}, numbers), 1, None)


def _fitted(value: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Return values of another shape: repeated, or without the last ones."""
    if value.ndim != len(shape) or not value.size:
        return np.resize(value, shape)
    return value[np.ix_(*(np.arange(size) % own for size, own in zip(shape, value.shape, strict=True)))]
