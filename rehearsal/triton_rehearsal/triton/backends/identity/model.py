"""Replaces Triton's identity backend, which answers with its inputs. Tests of clients and ensembles use it.

It follows src/identity.cc of identity_backend (main, read 2026-11-25), without optional inputs and tracing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]
from stand_in import StandIn, refuse  # type: ignore[import-not-found]


class TritonPythonModel(StandIn):  # type: ignore[misc]  # found only inside the stub
    """Answers INPUT<index> as OUTPUT<index>."""

    def load(self, args: Mapping[str, str]) -> None:
        del args
        self.delay_s = int(self.parameters.get("execute_delay_ms", 0)) / 1000
        inputs, outputs = (_tensors(self.config, side) for side in ("input", "output"))
        if len(inputs) != len(outputs):
            refuse("model configuration must have equal input/output pairs")
        for index, (kind, shape) in outputs.items():
            if index not in inputs:
                refuse("expected input and output indices to match")
            own_kind, own_shape = inputs[index]
            if own_kind != kind:
                refuse(f"expected input and output datatype to match, got {own_kind} and {kind}")
            if own_shape != shape:
                refuse(f"expected input and output shape to match, got {own_shape} and {shape}")
        self.indices = list(outputs)

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        time.sleep(self.delay_s)
        return [pb_utils.InferenceResponse(self._answer(request)) for request in requests]

    def _answer(self, request: Any) -> list[Any]:
        wanted = set(request.requested_output_names())
        return [
            pb_utils.Tensor(
                f"OUTPUT{index}", pb_utils.get_input_tensor_by_name(request, f"INPUT{index}").as_numpy()
            )
            for index in self.indices
            if f"OUTPUT{index}" in wanted
        ]


def _tensors(config: Mapping[str, Any], side: str) -> dict[str, tuple[str, list[int]]]:
    """Return type and shape of the tensors of a side, by the index in their names."""
    found = {}
    for each in config[side]:
        name, prefix = each["name"], side.upper()
        if not name.startswith(prefix):
            refuse(f"expected {side} name to follow {prefix}<index> pattern, got '{name}'")
        shape = each.get("reshape", {}).get("shape", each["dims"])
        found[name.removeprefix(prefix)] = (each["data_type"], [int(size) for size in shape])
    return found
