"""Stands in for Triton's onnxruntime backend: the same file, by the Python package of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]
from onnx_model import OnnxModel  # type: ignore[import-not-found]


class TritonPythonModel(OnnxModel):  # type: ignore[misc]  # found only inside the stub
    """Runs model.onnx, or the file that `default_model_filename` names."""

    def find_network(self, folder: Path, config: Mapping[str, Any]) -> Path:
        """The file the real backend would load."""
        path = folder / (config.get("default_model_filename") or "model.onnx")
        if not path.exists():
            message = f"unable to find '{path}' for model '{config['name']}'"
            raise pb_utils.TritonModelException(message)
        return path
