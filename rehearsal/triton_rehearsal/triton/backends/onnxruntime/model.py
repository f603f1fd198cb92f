"""Replaces Triton's onnxruntime backend: runs the same file with ONNX Runtime's Python package."""

from __future__ import annotations

from pathlib import Path

from onnx_model import OnnxModel  # type: ignore[import-not-found]


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
        return Path(self.file("model.onnx"))
