"""Stands in for Triton's tensorrt backend without a GPU: runs the ONNX file that a plan is made of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]
from onnx_model import OnnxModel  # type: ignore[import-not-found]


class TritonPythonModel(OnnxModel):  # type: ignore[misc]  # found only inside the stub
    """Runs the ONNX file at the place of the missing plan."""

    def find_file(self, folder: Path, config: Mapping[str, Any]) -> Path:
        """model.onnx beside the missing plan; a real plan cannot be run here."""
        plan = folder / (config.get("default_model_filename") or "model.plan")
        twins = [plan] if plan.suffix == ".onnx" else [plan.with_suffix(".onnx"), folder / "model.onnx"]
        if plan.suffix != ".onnx" and plan.exists():
            message = (
                f"'{plan}' is a TensorRT plan: it runs only on the GPU model it was compiled for, and this "
                "server has none. Build the model without a GPU to rehearse it: the portable build holds "
                "model.onnx in the plan's place"
            )
            raise pb_utils.TritonModelException(message)
        for path in twins:
            if path.exists():
                return path
        looked = " or ".join(f"'{path}'" for path in dict.fromkeys([plan, *twins]))
        message = f"unable to find {looked} for model '{config['name']}'"
        raise pb_utils.TritonModelException(message)
