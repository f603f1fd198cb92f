"""A Triton backend written in Python that runs an ONNX file on the CPU.

It runs inside the server's Python stub, in an environment of its own, so it imports nothing of this
repository. `backends/<name>/model.py` says which file of a model it runs.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-not-found]
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

Array = np.ndarray[Any, Any]

# ONNX Runtime's names of the element types that Triton has too.
TRITON_TYPES = {
    "tensor(bool)": "TYPE_BOOL",
    "tensor(uint8)": "TYPE_UINT8",
    "tensor(uint16)": "TYPE_UINT16",
    "tensor(uint32)": "TYPE_UINT32",
    "tensor(uint64)": "TYPE_UINT64",
    "tensor(int8)": "TYPE_INT8",
    "tensor(int16)": "TYPE_INT16",
    "tensor(int32)": "TYPE_INT32",
    "tensor(int64)": "TYPE_INT64",
    "tensor(float16)": "TYPE_FP16",
    "tensor(float)": "TYPE_FP32",
    "tensor(double)": "TYPE_FP64",
    "tensor(string)": "TYPE_STRING",
}

# `optimization { graph { level } }` as the onnxruntime backend reads it; every other level means all.
OPTIMIZATION_LEVELS = {
    -1: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    1: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
}


class OnnxModel:
    """What the Python stub calls: initialize once, execute for every batch, finalize once."""

    session: onnxruntime.InferenceSession | None = None

    def find_file(self, folder: Path, config: Mapping[str, Any]) -> Path:
        """The ONNX file of the model's version folder. A backend defines it."""
        raise NotImplementedError

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the file and refuse what the real backend would refuse."""
        config = json.loads(args["model_config"])
        folder = Path(args["model_repository"]) / args["model_version"]
        self.batched = config.get("max_batch_size", 0) > 0
        self.session = onnxruntime.InferenceSession(
            str(self.find_file(folder, config)), _options(config), providers=["CPUExecutionProvider"]
        )
        self.inputs = {entry.name: entry for entry in self.session.get_inputs()}
        self.outputs = {entry.name: entry for entry in self.session.get_outputs()}
        mistakes = [
            *_differences(args["model_name"], "input", config["input"], self.inputs, batched=self.batched),
            *_differences(args["model_name"], "output", config["output"], self.outputs, batched=self.batched),
        ]
        missing = sorted(set(self.inputs) - {entry["name"] for entry in config["input"]})
        if missing:
            mistakes.append(f"the model needs inputs that the configuration does not name: {missing}")
        if mistakes:
            raise pb_utils.TritonModelException("; ".join(mistakes))

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Run the requests together where their shapes allow it; one response each, in order."""
        responses: list[Any] = [None] * len(requests)
        for members in self._groups(requests).values():
            chosen = [requests[index] for index in members]
            try:
                answers = self._run(chosen)
            except Exception as error:  # noqa: BLE001  whatever it is, it belongs to these requests
                failure = pb_utils.TritonError(f"onnx runtime error: {error}")
                answers = [pb_utils.InferenceResponse(error=failure) for _ in chosen]
            for index, answer in zip(members, answers, strict=True):
                responses[index] = answer
        return responses

    def finalize(self) -> None:
        """Free the model."""
        self.session = None

    def _groups(self, requests: Sequence[Any]) -> dict[Any, list[int]]:
        """The requests by what they have in common; each group is one run."""
        groups: dict[Any, list[int]] = defaultdict(list)
        for index, request in enumerate(requests):
            shapes = tuple((entry.name(), tuple(entry.shape()[1:])) for entry in request.inputs())
            groups[shapes if self.batched else index].append(index)
        return groups

    def _run(self, requests: Sequence[Any]) -> list[Any]:
        assert self.session is not None  # noqa: S101  the stub initializes first
        columns = [{entry.name(): _decoded(entry.as_numpy()) for entry in r.inputs()} for r in requests]
        sizes = [len(next(iter(column.values()))) if self.batched else 0 for column in columns]
        first = columns[0]
        feed = first if len(columns) == 1 else {n: np.concatenate([c[n] for c in columns]) for n in first}
        wanted = sorted({name for request in requests for name in request.requested_output_names()})
        results = dict(zip(wanted, self.session.run(wanted, feed), strict=True))
        parts = {name: self._split(name, result, sizes) for name, result in results.items()}
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor(n, _encoded(parts[n][index])) for n in request.requested_output_names()]
            )
            for index, request in enumerate(requests)
        ]

    def _split(self, name: str, result: Array, sizes: Sequence[int]) -> list[Array]:
        if not self.batched:
            return [result]
        if result.ndim == 0 or len(result) != sum(sizes):
            found = "a scalar" if result.ndim == 0 else str(len(result))
            message = f"output '{name}' has batch size {found}, expected {sum(sizes)}"
            raise ValueError(message)
        return np.split(result, np.cumsum(sizes)[:-1])


def _options(config: Mapping[str, Any]) -> onnxruntime.SessionOptions:
    parameters = {name: entry["string_value"] for name, entry in config.get("parameters", {}).items()}
    options = onnxruntime.SessionOptions()
    # A fleet runs many models on one machine: one thread each unless the model asks for more, and no
    # thread that spins while it waits.
    options.intra_op_num_threads = int(parameters.get("intra_op_thread_count", 0)) or 1
    options.inter_op_num_threads = int(parameters.get("inter_op_thread_count", 0)) or 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    level = config.get("optimization", {}).get("graph", {}).get("level", 0)
    options.graph_optimization_level = OPTIMIZATION_LEVELS.get(
        int(level), onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    )
    return options


def _differences(
    model: str, kind: str, declared: Sequence[Any], actual: Mapping[str, Any], *, batched: bool
) -> list[str]:
    """What the configuration says about the inputs or outputs and the file does not."""
    found = []
    for entry in declared:
        name = entry["name"]
        if name not in actual:
            allowed = ", ".join(sorted(actual))
            found.append(f"unexpected inference {kind} '{name}', allowed {kind}s are: {allowed}")
            continue
        expected = TRITON_TYPES.get(actual[name].type, actual[name].type)
        if entry["data_type"] != expected:
            given = entry["data_type"]
            found.append(f"unexpected datatype {given} for inference {kind} '{name}', expecting {expected}")
        dims = entry.get("reshape", {}).get("shape", entry["dims"])
        shape = [-1, *map(int, dims)] if batched else [int(size) for size in dims]
        if not _fits(shape, actual[name].shape):
            real = [size if isinstance(size, int) else -1 for size in actual[name].shape]
            found.append(
                f"model '{model}', tensor '{name}': the model expects the shape {real} but the model "
                f"configuration specifies {shape}" + (" (the first is the batch)" if batched else "")
            )
    return found


def _fits(declared: Sequence[int], actual: Sequence[int | str | None]) -> bool:
    """Whether both shapes have a tensor in common. A name or None stands for any size."""
    return len(declared) == len(actual) and all(
        size == -1 or not isinstance(real, int) or real == size
        for size, real in zip(declared, actual, strict=True)
    )


def _decoded(array: Array) -> Array:
    """ONNX Runtime takes text where Triton gives bytes."""
    if array.dtype != np.object_:
        return array
    texts = [entry.decode() if isinstance(entry, bytes) else str(entry) for entry in array.ravel()]
    return _objects(texts, array.shape)


def _encoded(array: Array) -> Array:
    if array.dtype != np.object_:
        return array
    return _objects([str(entry).encode() for entry in array.ravel()], array.shape)


def _objects(entries: Sequence[str | bytes], shape: tuple[int, ...]) -> Array:
    flat: Array = np.array(entries, dtype=np.object_)
    return flat.reshape(shape)
