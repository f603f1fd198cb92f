"""Inputs of a network: their types, which a backend of a release supports, and those taken from examples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.declare.declaration import ModelDefinition
from triton_models.declare.mistakes import BAD_DECLARATION, find_mistakes
from triton_models.declare.models import PyTorchNetwork
from triton_models.declare.tensors import DATA_TYPES, NUMPY_TYPES, Tensor
from triton_models.facts.releases import Release
from triton_models.facts.tensorrt import FIRST_WITH_INT64, PLAN_TYPES, major

INPUTS_UNKNOWN = Check(id="inputs-unknown", source=FROM_ARGUMENTS)

TYPES: Mapping[str, str] = {**{theirs: ours for ours, theirs in NUMPY_TYPES.items()}, "object": "STRING"}
"""Triton's names of types, by NumPy's."""


def with_inputs_of_examples(network: PyTorchNetwork, build: ModelDefinition) -> PyTorchNetwork:
    """Return a network with the names, types and shapes of the first example as its inputs."""
    examples = list(build.examples())
    where = f"the inputs of {network.name!r}"
    if not examples:
        what = f"{network.name!r} has neither inputs nor an example"
        fix = "write inputs=[...], or return an example from examples()"
        raise INPUTS_UNKNOWN.error(what=what, where=where, fix=fix)
    skipped = 1 if network.max_batch_size else 0
    inputs = [
        Tensor(name, type_of(value), value.shape[skipped:]) for name, value in examples[0].first.items()
    ]
    report = Report(where)
    for tensor in inputs:
        given = [each.first[tensor.name] for each in examples if tensor.name in each.inputs]
        types = {type_of(each) for each in given}
        if len(types) > 1:
            what = f"the examples have {tensor.name!r} as {' and '.join(sorted(types))}"
            fix = f"convert them in examples(), such as with .astype(np.{given[0].dtype.name})"
            report(INPUTS_UNKNOWN, what, fix=fix)
        shapes = {each.shape[skipped:] for each in given}
        if len(shapes) > 1:
            listed = " and ".join(str(list(shape)) for shape in sorted(shapes))
            what = f"the examples have {tensor.name!r} with the shapes {listed}"
            fix = f'write inputs=[Tensor("{tensor.name}", "{tensor.data_type}", [DynamicDim(...), ...])]'
            report(INPUTS_UNKNOWN, what, fix=fix)
    report.raise_if_any()
    complete = replace(network, inputs=inputs)
    for _, mistake in find_mistakes(complete):
        report(BAD_DECLARATION, mistake.what, fix=mistake.fix)
    report.raise_if_any()
    return complete


def type_of(value: Any) -> str:
    """Return Triton's name of an array's type."""
    name = str(value.dtype.name)
    return TYPES.get(name, name.upper())


NETWORK_TYPE = Check(id="network-type", source=FROM_ARGUMENTS)

_KNOWN = frozenset(f"TYPE_{name}" for name in DATA_TYPES)


def check_types(
    report: Report, tensors: Iterable[tuple[str, str]], *, backend: str, release: Release
) -> None:
    """Check that the backend of a release supports the type of each tensor."""
    supported = PLAN_TYPES if backend == "tensorrt" else _KNOWN
    for tensor, data_type in tensors:
        what = f"{tensor} is {data_type}, for {backend} of release {release.name}"
        if data_type not in _KNOWN:
            names = ", ".join(sorted(_KNOWN))
            fix = f"cast or unpack it inside the network, and export again: Triton supports {names}"
            report(NETWORK_TYPE, f"{tensor} has the type {data_type}", fix=fix)
        elif data_type not in supported:
            names = ", ".join(sorted(supported))
            fix = f"cast it to one of {names} inside the network, or serve the model with ONNX Runtime"
            report(NETWORK_TYPE, f"{tensor} is {data_type}, which a TensorRT plan does not support", fix=fix)
        elif data_type == "TYPE_BF16" and (since := release.bf16_since(backend)):
            report(NETWORK_TYPE, what, fix=f"use release {since} or newer, or cast it inside the network")
        elif backend == "tensorrt" and data_type == "TYPE_INT64" and major(release) < FIRST_WITH_INT64:
            fix = "export it as INT32, which every TensorRT version keeps: this one converts INT64 to it"
            report(NETWORK_TYPE, what, fix=fix)
