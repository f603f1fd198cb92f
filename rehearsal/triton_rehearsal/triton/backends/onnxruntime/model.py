"""Replaces Triton's onnxruntime backend: runs the same file with ONNX Runtime's Python package.

A tensor without dimensions gets and takes the dims of the configuration, as in SetInputTensors and
ReadOutputTensors of onnxruntime_backend (r25.09, read 2026-11-28).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnxruntime  # type: ignore[import-untyped]
from backend_rules.onnxruntime import network_of, refusals  # type: ignore[import-not-found]
from backend_rules.refusal import served_dims  # type: ignore[import-not-found]
from onnx_model import OnnxModel  # type: ignore[import-not-found]
from stand_in import refuse  # type: ignore[import-not-found]


class TritonPythonModel(OnnxModel):  # type: ignore[misc]  # found only inside the stub
    """Runs model.onnx, or the file in `default_model_filename`."""

    # As in triton-inference-server/server#5661.
    out_of_memory = (
        "onnx runtime error 6: Exception during initialization: /workspace/onnxruntime/onnxruntime/core/"
        "framework/bfc_arena.cc:368 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool, "
        "onnxruntime::Stream*, bool, onnxruntime::WaitNotificationFn) Failed to allocate memory for "
        "requested buffer of size {wanted}"
    )

    def find_network(self) -> Path:
        """Return the file that the real backend would load."""
        path = Path(self.file("model.onnx"))
        return path / "model.onnx" if path.is_dir() else path

    def validate(self, session: onnxruntime.InferenceSession) -> None:
        """Refuse a configuration that the real backend refuses, in its words."""
        for refusal in refusals(self.config, network_of(session), model=self.config["name"]):
            refuse(refusal.message)
        self._scalars = {entry.name for entry in session.get_inputs() if not entry.shape}
        scalars = {entry.name for entry in session.get_outputs() if not entry.shape}
        listed = (entry for entry in self.config["output"] if entry["name"] in scalars)
        self._scalar_dims = {entry["name"]: served_dims(entry) for entry in listed}

    def run(self, wanted: Sequence[str], feed: Mapping[str, Any]) -> list[Any]:
        """Run a batch; see the module for tensors without dimensions."""
        values = {
            name: value.reshape(()) if self._is_scalar(name, value) else value for name, value in feed.items()
        }
        answers = zip(wanted, super().run(wanted, values), strict=True)
        return [
            answer if answer.ndim else answer.reshape(self._scalar_dims.get(name, ()))
            for name, answer in answers
        ]

    def _is_scalar(self, name: str, value: Any) -> bool:
        return name in self._scalars and value.size == 1 and not self.batched
