"""A Triton backend written in Python that runs an ONNX file on the CPU.

It runs inside the server's Python stub, in the stub's environment, so it imports nothing from this
repository. `backends/<name>/model.py` determines the file of a model that it runs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
from backend_rules.onnxruntime import network_of  # type: ignore[import-not-found]
from backend_rules.refusal import served_dims  # type: ignore[import-not-found]
from stand_in import BatchedModel, refuse  # type: ignore[import-not-found]

Array = np.ndarray[Any, Any]

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
        network = self.find_network()
        self.take_memory(args, len(network) if isinstance(network, bytes) else self.size)
        self.session = onnxruntime.InferenceSession(
            network if isinstance(network, bytes) else str(network),
            _options(self.config, self.parameters),
            providers=["CPUExecutionProvider"],
        )
        self.validate(self.session)

    def validate(self, session: onnxruntime.InferenceSession) -> None:
        """Refuse a configuration that the real backend refuses."""
        network = network_of(session)
        mistakes = [text for side in ("input", "output") for text in self._differences(side, network)]
        # The server adds the controls of a sequence to its requests.
        controls = self.config.get("sequence_batching", {}).get("control_input", [])
        listed = {entry["name"] for entry in (*self.config["input"], *controls)}
        missing = sorted({tensor.name for tensor in network.inputs} - listed)
        if missing:
            mistakes.append(f"the model needs inputs that the configuration does not name: {missing}")
        if mistakes:
            refuse("; ".join(mistakes))

    def _differences(self, side: str, network: Any) -> Iterator[str]:
        """Yield differences between the configuration's inputs or outputs and the file's."""
        tensors = network.tensors(side)
        for entry in self.config[side]:
            name, data_type = entry["name"], entry["data_type"]
            if name not in tensors:
                allowed = ", ".join(sorted(tensors))
                yield f"unexpected inference {side} '{name}', allowed {side}s are: {allowed}"
                continue
            own = tensors[name]
            if data_type != own.data_type:
                expecting = f"expecting {own.data_type}"
                yield f"unexpected datatype {data_type} for inference {side} '{name}', {expecting}"
            shape = [*([-1] if self.batched else []), *served_dims(entry)]
            if len(shape) != len(own.dims) or any(
                -1 not in sizes and len(sizes) > 1 for sizes in map(set, zip(shape, own.dims, strict=True))
            ):
                batch = " (the first is the batch)" if self.batched else ""
                yield (
                    f"model '{self.name}', tensor '{name}': the model expects the shape {[*own.dims]} but "
                    f"the model configuration specifies {shape}{batch}"
                )

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
