"""Replaces Triton's identity backend, which answers with its inputs. Tests of clients and ensembles use it.

It follows src/identity.cc of identity_backend (main, read 2026-11-25), without optional inputs and tracing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]


class TritonPythonModel:
    """Answers INPUT<index> as OUTPUT<index>."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Refuse a configuration that the real backend would refuse."""
        config = json.loads(args["model_config"])
        delay = config.get("parameters", {}).get("execute_delay_ms", {})
        self.delay_s = int(delay.get("string_value", 0)) / 1000
        inputs, outputs = (_tensors(config, side) for side in ("input", "output"))
        if len(inputs) != len(outputs):
            _refuse("model configuration must have equal input/output pairs")
        for index, (kind, shape) in outputs.items():
            if index not in inputs:
                _refuse("expected input and output indices to match")
            own_kind, own_shape = inputs[index]
            if own_kind != kind:
                _refuse(f"expected input and output datatype to match, got {own_kind} and {kind}")
            if own_shape != shape:
                _refuse(f"expected input and output shape to match, got {own_shape} and {shape}")
        self.indices = list(outputs)

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer each request by itself, as the real backend does."""
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
            _refuse(f"expected {side} name to follow {prefix}<index> pattern, got '{name}'")
        shape = each.get("reshape", {}).get("shape", each["dims"])
        found[name.removeprefix(prefix)] = (each["data_type"], [int(size) for size in shape])
    return found


def _refuse(message: str) -> None:
    raise pb_utils.TritonModelException(message)
