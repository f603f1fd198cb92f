"""Checks of the requests that are given for a warm-up, against the declarations of their models."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from triton_fleet.operations.warm_up import WARM_UP_REQUESTS, WarmUpRequest, is_json
from triton_fleet.parts.arguments.tokens import known
from triton_models.base.checks import Report
from triton_models.base.errors import FleetError
from triton_models.base.suggest import close_to, did_you_mean
from triton_models.declare.declaration import ModelDefinition, interface_of
from triton_models.declare.ensembles import Interface, connect
from triton_models.declare.models import DaliPipeline, Ensemble, PyTorchNetwork, steps_of
from triton_models.declare.network_inputs import type_of, with_inputs_of_examples
from triton_models.declare.reading import FORM_MARK, load_build
from triton_models.declare.searched import environment_of_a_build
from triton_models.declare.tensors import DynamicDim, Tensor


def unfit_requests(
    report: Report,
    given: Sequence[WarmUpRequest],
    *,
    cold: Sequence[str],
    built: Sequence[str],
    models: Path,
    hot: Sequence[str] = (),
) -> None:
    """Report problems of requests that do not fit the models that are built."""
    names = [name for each in (*(each.model for each in given), *cold, *hot) if (name := known(each))]
    if not names:
        return
    with environment_of_a_build({}):
        taken = _inputs(names, built, models)
    for name in names:
        # What is left out, or hot, may have been published by others, and need not be built here.
        if name not in taken and (name not in (*cold, *hot) or close_to(name, taken)):
            report(
                WARM_UP_REQUESTS,
                f"{name!r} is not a model of this fleet",
                fix=did_you_mean(name, taken, otherwise="remove it, or build the model"),
                why="nothing of that name is built",
            )
    for each in given:
        body, interface = known(each.body), taken.get(known(each.model) or "")
        if body and is_json(known(each.content_type) or ""):
            for what, expected in _misfits(body, interface):
                report(
                    WARM_UP_REQUESTS,
                    what,
                    why="the model would refuse the request",
                    fix=f"write the request as the model declares its inputs: {expected}",
                )


def _inputs(names: Collection[str], built: Sequence[str], models: Path) -> dict[str, Interface | None]:
    """Return the models that are built, with the inputs of those that are named, if they are known."""
    found: dict[str, Interface | None] = {each: None for each in built if FORM_MARK not in each}
    for each in built:
        if each in names or FORM_MARK in each:  # a form has a name of its own
            with suppress(FleetError):  # the build job reports it
                build = load_build(each, models)
                found[build.name] = (_declared(build) or _of_examples(build)) if build.name in names else None
    return found


def _declared(build: ModelDefinition) -> Interface | None:
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


def _of_examples(build: ModelDefinition) -> Interface | None:
    """Return the inputs of the examples; those of other models than networks may have other sizes."""
    with suppress(Exception):  # the build job reports it
        for model in build.models:
            if model.name == build.name and isinstance(model, PyTorchNetwork):
                inputs = with_inputs_of_examples(model, build).inputs
                return Interface(inputs=inputs, outputs=(), batches=model.max_batch_size != 0)
        first = build.as_sent(build.examples()[0]).first
        inputs = [Tensor(name, type_of(each), [-1] * each.ndim) for name, each in first.items()]
        return Interface(inputs=inputs, outputs=(), batches=False)
    return None


def _misfits(body: str, interface: Interface | None) -> Iterator[tuple[str, str]]:
    try:
        document = json.loads(body)
    except ValueError:
        return  # reported with the position
    sent = document.get("inputs") if isinstance(document, dict) else None
    if not isinstance(sent, list) or not all(isinstance(each, dict) for each in sent):
        yield (
            "the request has no list of inputs",
            '{"inputs": [{"name": ..., "shape": ..., "datatype": ..., "data": ...}]}',
        )
        return
    for each in sent:
        yield from _values(each)
    if interface is None:
        return
    declared = {tensor.name: tensor for tensor in interface.inputs}
    given = {str(each.get("name")): each for each in sent}
    for name in (each for each in given if each not in declared):
        close = did_you_mean(name, declared, otherwise=f"one of {', '.join(declared)}")
        yield f"there is no input {name!r}", close
    for name in (each for each in declared if each not in given):
        yield f"the input {name!r} is missing", f"all of {', '.join(declared)}"
    for name, tensor in declared.items():
        if name in given:
            yield from _tensor(given[name], tensor, batches=interface.batches)


def _values(sent: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a number of values that is not that of the shape."""
    shape, data = sent.get("shape"), sent.get("data")
    if not isinstance(shape, list) or not all(type(size) is int for size in shape):
        yield f"the shape of {sent.get('name')!r} is {shape!r}", "a list of integers"
        return
    found = data.get("times") if isinstance(data, dict) else _count(data)
    if found != math.prod(shape):
        yield f"{sent.get('name')!r} has {found} values", f"{math.prod(shape)}, for the shape {shape}"


def _count(data: object) -> int:
    return sum(map(_count, data)) if isinstance(data, list) else 1


def _tensor(sent: Mapping[str, Any], tensor: Tensor, *, batches: bool) -> Iterator[tuple[str, str]]:
    datatype = tensor.full_type.removeprefix("TYPE_").replace("STRING", "BYTES")
    if sent.get("datatype") != datatype:
        yield f"{tensor.name!r} has the datatype {sent.get('datatype')!r}", datatype
    sizes = (-1, *tensor.dims) if batches else tuple(tensor.dims)
    shape = sent.get("shape")
    if not isinstance(shape, list) or (len(shape) == len(sizes) and all(map(_fits, shape, sizes))):
        return
    written = [f"{each.min} to {each.max}" if isinstance(each, DynamicDim) else str(each) for each in sizes]
    yield (
        f"{tensor.name!r} has the shape {shape}",
        f"[{', '.join(written)}]" + (", the batch first" if batches else ""),
    )


def _fits(size: object, declared: int | DynamicDim) -> bool:
    if not isinstance(size, int):
        return False
    if isinstance(declared, DynamicDim):
        return declared.min <= size <= declared.max
    return size == declared or (declared == -1 and size >= 1)
