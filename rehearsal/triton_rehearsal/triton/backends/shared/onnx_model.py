"""A Triton backend written in Python that runs an ONNX file on the CPU.

It runs inside the server's Python stub, in the stub's environment, so it imports nothing from this
repository. `backends/<name>/model.py` determines the file of a model that it runs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
from stand_in import BatchedModel, refuse  # type: ignore[import-not-found]

Array = np.ndarray[Any, Any]

# ONNX Runtime's names of Triton's element types.
TRITON_TYPES = {
    **{f"tensor({kind})": f"TYPE_{kind.upper()}" for kind in ("bool", "string")},
    **{
        f"tensor({sign}int{bits})": f"TYPE_{sign.upper()}INT{bits}"
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    "tensor(float16)": "TYPE_FP16",
    "tensor(float)": "TYPE_FP32",
    "tensor(double)": "TYPE_FP64",
}

# The onnxruntime backend's reading of `optimization { graph { level } }`; every other level means all.
OPTIMIZATION_LEVELS = {
    -1: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    1: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    2: onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
}


class OnnxModel(BatchedModel):  # type: ignore[misc]  # found only inside the stub
    """Runs the ONNX file that a backend finds."""

    runtime = "onnx runtime"
    session: onnxruntime.InferenceSession | None = None

    @abstractmethod
    def find_network(self) -> Path | bytes:
        """Return the ONNX file in the model's version folder, or its content."""

    def load(self, args: Mapping[str, str]) -> None:
        found = self.find_network()
        self.take_memory(args, len(found) if isinstance(found, bytes) else self.size)
        self.session = onnxruntime.InferenceSession(
            found if isinstance(found, bytes) else str(found),
            _options(self.config, self.parameters),
            providers=["CPUExecutionProvider"],
        )
        self.validate(self.session)

    def validate(self, session: onnxruntime.InferenceSession) -> None:
        """Refuse a configuration that the real backend refuses."""
        inputs = {entry.name: entry for entry in session.get_inputs()}
        overridable = {entry.name: entry for entry in session.get_overridable_initializers()}
        outputs = {entry.name: entry for entry in session.get_outputs()}
        mistakes = [
            *self._differences("input", {**inputs, **overridable}),
            *self._differences("output", outputs),
        ]
        # The server adds the controls of a sequence to its requests.
        controls = self.config.get("sequence_batching", {}).get("control_input", [])
        missing = sorted(set(inputs) - {entry["name"] for entry in (*self.config["input"], *controls)})
        if missing:
            mistakes.append(f"the model needs inputs that the configuration does not name: {missing}")
        if mistakes:
            refuse("; ".join(mistakes))

    def _differences(self, kind: str, actual: Mapping[str, Any]) -> list[str]:
        """Return differences between the configuration's inputs or outputs and the file's."""
        found = []
        for entry in self.config[kind]:
            name, given = entry["name"], entry["data_type"]
            if name not in actual:
                allowed = ", ".join(sorted(actual))
                found.append(f"unexpected inference {kind} '{name}', allowed {kind}s are: {allowed}")
                continue
            expected = TRITON_TYPES.get(actual[name].type, actual[name].type)
            if given != expected:
                found.append(
                    f"unexpected datatype {given} for inference {kind} '{name}', expecting {expected}"
                )
            dims = entry.get("reshape", {}).get("shape", entry["dims"])
            shape = [*([-1] if self.batched else []), *map(int, dims)]
            if not _fits(shape, actual[name].shape):
                real = [size if isinstance(size, int) else -1 for size in actual[name].shape]
                found.append(
                    f"model '{self.name}', tensor '{name}': the model expects the shape {real} but the model "
                    f"configuration specifies {shape}" + (" (the first is the batch)" if self.batched else "")
                )
        return found

    def run(self, wanted: Sequence[str], feed: Mapping[str, Array]) -> Sequence[Array]:
        assert self.session is not None  # noqa: S101  the stub initializes first
        results: Sequence[Array] = self.session.run(list(wanted), dict(feed))
        return results

    def finalize(self) -> None:
        self.session = None
        super().finalize()


def _options(config: Mapping[str, Any], parameters: Mapping[str, str]) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    # A fleet runs many models on one machine: each gets one thread unless it requests more, and threads do
    # not spin while they wait.
    options.intra_op_num_threads = int(parameters.get("intra_op_thread_count", 0)) or 1
    options.inter_op_num_threads = int(parameters.get("inter_op_thread_count", 0)) or 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if parameters.get("execution_mode") == "1":
        options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    options.enable_mem_pattern = parameters.get("enable_mem_pattern", "1") == "1"
    options.enable_cpu_mem_arena = parameters.get("enable_mem_arena", "1") == "1"
    options.log_severity_level = 3
    level = config.get("optimization", {}).get("graph", {}).get("level", 0)
    options.graph_optimization_level = OPTIMIZATION_LEVELS.get(
        int(level), onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    )
    return options


def _fits(declared: Sequence[int], actual: Sequence[int | str | None]) -> bool:
    """Return True if a tensor can have both shapes. A name or None means any size."""
    return len(declared) == len(actual) and all(
        size == -1 or not isinstance(real, int) or real == size
        for size, real in zip(declared, actual, strict=True)
    )
