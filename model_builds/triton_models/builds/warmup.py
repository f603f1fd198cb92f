"""Triton's model_warmup, generated from a declaration.

A warm-up of batch size N runs N requests of one row together, all with the same data
(GenerateWarmupData in src/backend_model_instance.cc of Triton core, main, read on 2026-11-21).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.base.errors import FleetError
from triton_models.base.suggest import did_you_mean
from triton_models.declare.declaration import Example, Tensors
from triton_models.declare.models import Forest, OnnxFile, ServedModel
from triton_models.declare.tensors import DynamicDim, Tensor

if TYPE_CHECKING:
    from triton_models.artifact.pbtxt import ModelConfig

FOLDER = "warmup"
"""The folder for warm-up data inside the model directory."""


def add_warm_up(
    model: ServedModel, config: ModelConfig, directory: Path, *, examples: Callable[[], list[Example]]
) -> None:
    """Add a model's warm-up to its configuration, and the example's data to its directory.

    Raises:
        FleetError: The example does not exist or does not fit the model's inputs, or an open size has no
            value.
    """
    if model.warm_up is None:
        return
    name = model.warm_up.example
    rows = _first_row(_find(model, name, examples()), config, model) if name is not None else None
    data = {tensor.name: _data(tensor, rows) for tensor in config.input}
    sizes = _usual_sizes(model)
    for batch in model.warm_up.batch_sizes:
        sample = config.model_warmup.add(name=f"batch of {batch}", batch_size=batch)
        if model.warm_up.count > 1:  # Triton's default is one
            sample.count = model.warm_up.count
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
            (directory / FOLDER).mkdir(exist_ok=True)
            (directory / FOLDER / tensor_name).write_bytes(content)


def _usual_sizes(model: ServedModel) -> dict[str, Sequence[int]]:
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


def _dims(tensor: Any, usual: Sequence[int] | None, model: ServedModel) -> list[int]:
    dims = list(usual if usual is not None else tensor.dims)
    if -1 in dims:
        raise _unfit(
            model,
            f"input {tensor.name!r} has the dims {dims}",
            fix="use a DynamicDim instead, give a profile, or warm up with an example",
        )
    return dims


def _find(model: ServedModel, name: str, examples: Sequence[Example]) -> Example:
    known = {example.name: example for example in examples}
    if name not in known:
        raise _unfit(
            model,
            f"the example {name!r} does not exist",
            fix=did_you_mean(name, known, otherwise=f"use one of {', '.join(known)}"),
        )
    return known[name]


def _first_row(example: Example, config: ModelConfig, model: ServedModel) -> Tensors:
    names = [tensor.name for tensor in config.input]
    if missing := [name for name in names if name not in example.inputs]:
        raise _unfit(
            model,
            f"the example {example.name!r} has no {', '.join(missing)}",
            fix=f"use an example with {', '.join(names)}, or none, which sends zeros",
        )
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
