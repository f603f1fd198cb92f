"""The data types that a backend of a release supports in a network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from triton_models.base.errors import Problem
from triton_models.declare.tensors import DATA_TYPES
from triton_models.facts.openvino import OPENVINO_TYPES
from triton_models.facts.releases import Release
from triton_models.facts.tensorrt import PLAN_TYPES, major

# From this version on, a plan keeps its ONNX file's INT64 inputs; older ones use INT32 (server issue 7307).
_FIRST_WITH_INT64 = 10
_SUPPORTED = {
    "tensorrt": ("a TensorRT plan", PLAN_TYPES),
    "openvino": ("the openvino backend", OPENVINO_TYPES),
}


def type_problems(
    tensors: Iterable[tuple[str, str]], *, backend: str, release: Release, where: str
) -> Iterator[Problem]:
    """Yield a problem for each tensor whose type the backend of a release does not support.

    Args:
        tensors: A description, such as "input 'x'", and the data type of each tensor.
        backend: The backend that runs the network.
        release: The Triton release.
        where: The network, for the problems.
    """
    for tensor, data_type in tensors:
        found = _problem(tensor, data_type, backend, release)
        if found is not None:
            what, why, fix = found
            yield Problem(what=what, where=where, why=why, fix=fix, rule="network-type")


def _problem(tensor: str, data_type: str, backend: str, release: Release) -> tuple[str, str, str] | None:
    """Return what is wrong with a type, why it matters, and its fix."""
    known = [f"TYPE_{name}" for name in DATA_TYPES]
    reader, supported = _SUPPORTED.get(backend, ("a configuration", frozenset(known)))
    if data_type not in known:
        return (
            f"{tensor} has the type {data_type}",
            "a configuration cannot name that type",
            f"cast or unpack it inside the network, and export again: Triton supports {', '.join(known)}",
        )
    if data_type not in supported:
        return (
            f"{tensor} is {data_type}",
            f"{reader} does not support that type",
            f"cast it to one of {', '.join(sorted(supported))} inside the network, or serve the model with "
            "ONNX Runtime",
        )
    if data_type == "TYPE_BF16" and (since := release.bf16_since(backend)):
        return (
            f"{tensor} is TYPE_BF16, for {backend} of release {release.name}",
            "the backend of older releases does not have that type",
            f"use release {since} or newer, or cast it inside the network",
        )
    if backend == "tensorrt" and data_type == "TYPE_INT64" and major(release) < _FIRST_WITH_INT64:
        return (
            f"{tensor} is TYPE_INT64, for TensorRT {release.tensorrt} of release {release.name}",
            "TensorRT before 10 converts it to INT32, which contradicts the configuration",
            "export it as INT32, which every TensorRT version keeps",
        )
    return None
