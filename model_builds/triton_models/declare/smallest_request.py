"""The smallest request to a declared model, which loads it before anyone waits for an answer.

Sizes are 1, or the smallest that the declaration allows. Numbers are 0, and strings are short. Zeros are
written as {"of": 0, "times": N}, which the warm-up expands, because an image of zeros is longer than the
limit for all requests together.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from triton_models.declare.declaration import ModelDefinition, interface_of
from triton_models.declare.ensembles import Interface, connect
from triton_models.declare.models import DaliPipeline, Ensemble, steps_of
from triton_models.declare.tensors import DynamicDim, Tensor
from triton_models.facts.payload import PAYLOAD_LIMIT

# Read on 2026-11-22: src/http_server.cc of the Triton server has no JSON form for FP16 and BF16, and accepts
# true and false for BOOL.
_NOT_IN_JSON = ("FP16", "BF16")
_VALUES: Mapping[str, bool | str] = MappingProxyType({"BOOL": False, "STRING": "text"})


def smallest_request(build: ModelDefinition) -> str | None:
    """Return the body of the smallest request, as JSON with repeated data.

    Returns:
        The body; None if it cannot be derived from the declaration. That is so for ONNX files, for models
        from `write`, for DALI pipelines, which need encoded data, for types that JSON lacks, and for data
        too long for a request.
    """
    taken = request_interface(build)
    if taken is None or not taken.inputs:
        return None
    types = {tensor.full_type.removeprefix("TYPE_") for tensor in taken.inputs}
    tensors = [_written(tensor, batches=taken.batches) for tensor in taken.inputs]
    if types.intersection(_NOT_IN_JSON) or not _fits(tensors):
        return None
    return json.dumps({"inputs": tensors}, separators=(",", ":"))


def request_interface(build: ModelDefinition) -> Interface | None:
    """Return the inputs that applications send to a model; None if its declaration does not have them."""
    models = {model.name: model for model in build.models}
    top = models.get(build.name)
    if top is None or any(isinstance(model, DaliPipeline) for model in build.models):
        return None
    if not isinstance(top, Ensemble):
        return interface_of(top)
    steps = {step.model_name: models.get(step.model_name) for step in steps_of(top)}
    known: dict[str, Interface] = {}
    for name, model in steps.items():
        interface = None if model is None or isinstance(model, Ensemble) else interface_of(model)
        if interface is None:
            return None
        known[name] = interface
    batches = all(each.batches for each in known.values())
    return Interface(inputs=connect(top, known).inputs, outputs=(), batches=batches)


def _written(tensor: Tensor, *, batches: bool) -> dict[str, Any]:
    sizes = [size.min if isinstance(size, DynamicDim) else max(size, 1) for size in tensor.dims]
    name = tensor.full_type.removeprefix("TYPE_")
    return {
        "name": tensor.name,
        "shape": [1, *sizes] if batches else sizes,
        "datatype": "BYTES" if name == "STRING" else name,
        "data": {"of": _VALUES.get(name, 0), "times": math.prod(sizes)},
    }


def _fits(tensors: list[dict[str, Any]]) -> bool:
    written = (tensor["data"]["times"] * len(json.dumps([tensor["data"]["of"]])) for tensor in tensors)
    characters: int = sum(written)
    return characters * 10 < PAYLOAD_LIMIT * 9  # the names need room too
