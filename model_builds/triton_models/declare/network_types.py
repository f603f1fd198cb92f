"""The data types that a backend of a release supports in a network."""

from __future__ import annotations

from collections.abc import Iterable

from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.declare.tensors import DATA_TYPES
from triton_models.facts.openvino import OPENVINO_TYPES
from triton_models.facts.releases import Release
from triton_models.facts.tensorrt import FIRST_WITH_INT64, PLAN_TYPES, major

NETWORK_TYPE = Check(id="network-type", source=FROM_ARGUMENTS)

_KNOWN = frozenset(f"TYPE_{name}" for name in DATA_TYPES)
_SUPPORTED = {
    "tensorrt": ("a TensorRT plan", PLAN_TYPES),
    "openvino": ("the openvino backend", OPENVINO_TYPES),
}


def check_types(
    report: Report, tensors: Iterable[tuple[str, str]], *, backend: str, release: Release
) -> None:
    """Check that the backend of a release supports the type of each tensor."""
    reader, supported = _SUPPORTED.get(backend, ("", _KNOWN))
    for tensor, data_type in tensors:
        what = f"{tensor} is {data_type}, for {backend} of release {release.name}"
        if data_type not in _KNOWN:
            names = ", ".join(sorted(_KNOWN))
            fix = f"cast or unpack it inside the network, and export again: Triton supports {names}"
            report(NETWORK_TYPE, f"{tensor} has the type {data_type}", fix=fix)
        elif data_type not in supported:
            names = ", ".join(sorted(supported))
            fix = f"cast it to one of {names} inside the network, or serve the model with ONNX Runtime"
            report(NETWORK_TYPE, f"{tensor} is {data_type}, which {reader} does not support", fix=fix)
        elif data_type == "TYPE_BF16" and (since := release.bf16_since(backend)):
            report(NETWORK_TYPE, what, fix=f"use release {since} or newer, or cast it inside the network")
        elif backend == "tensorrt" and data_type == "TYPE_INT64" and major(release) < FIRST_WITH_INT64:
            fix = "export it as INT32, which every TensorRT version keeps: this one converts INT64 to it"
            report(NETWORK_TYPE, what, fix=fix)
