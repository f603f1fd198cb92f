"""Replaces Triton's dali backend without a GPU: runs the same pipeline with DALI's Python package.

It runs inside the server's Python stub, in the stub's environment, so it imports nothing from this
repository. DALI comes from the environment that builds models; `packages` next to this file points to it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]
from stand_in import StandIn, build_package, refuse  # type: ignore[import-not-found]

Array = np.ndarray[Any, Any]

INVALIDATED = "Current pipeline object is no longer valid."

INSTALL = "install it: python -m triton_models.builds.locked dali"

ONE_BYTE = 1 << 7  # from this length on, a string's length takes more than a byte


def text(value: str) -> bytes:
    """Return a string as it is in a serialized pipeline: preceded by its length."""
    encoded = value.encode()
    return bytes([len(encoded)]) + encoded if len(encoded) < ONE_BYTE else encoded


GPU_DEVICES = (text("mixed"), text("gpu"))


class TritonPythonModel(StandIn):  # type: ignore[misc]  # found only inside the stub
    """Runs the pipeline, or that of the Python file to which the real backend falls back."""

    pipeline: Any = None

    def load(self, args: Mapping[str, str]) -> None:
        del args
        file = self.file("model.dali", "dali.py")
        dali = build_package("nvidia.dali.pipeline", fix=INSTALL)
        self.deserialize = dali.Pipeline.deserialize
        self.content = read_pipeline(file)
        self.outputs = [entry["name"] for entry in self.config["output"]]
        inputs = [entry["name"] for entry in self.config["input"]]
        if unknown := [name for name in inputs if text(name) not in self.content]:
            refuse(f"the pipeline has no input of the configuration's name: {unknown}")
        threads = int(self.parameters.get("num_threads", 1))
        self.options = {"batch_size": self.config["max_batch_size"], "num_threads": threads}
        self.pipeline = self.make()
        if self.pipeline.num_outputs != len(self.outputs):
            refuse(
                f"the pipeline has {self.pipeline.num_outputs} outputs but the model configuration specifies "
                f"{len(self.outputs)}"
            )

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer all requests by one batch, which one bad file ends for all of them."""
        rows = [len(request.inputs()[0].as_numpy()) for request in requests]
        try:
            for entry in requests[0].inputs():
                given = [pb_utils.get_input_tensor_by_name(each, entry.name()) for each in requests]
                self.pipeline.feed_input(entry.name(), [row for each in given for row in each.as_numpy()])
            made = dict(zip(self.outputs, self.pipeline.run(), strict=True))
            ends = np.cumsum(rows)
            return [
                self.answer(request, made, range(end - count, end))
                for request, count, end in zip(requests, rows, ends, strict=True)
            ]
        except Exception as error:  # noqa: BLE001  any exception belongs to these requests
            self.pipeline = self.make()  # a pipeline cannot run again after a failure
            words = " ".join(str(error).replace(INVALIDATED, "").split())
            said = f"DALI runtime error: {words}"
            # As in `stand_in`, each has an error of its own.
            return [pb_utils.InferenceResponse(error=pb_utils.TritonError(said)) for _ in requests]

    def finalize(self) -> None:
        self.pipeline = None

    def make(self) -> Any:
        """Return the pipeline, ready to run one batch at a time."""
        try:
            return self.deserialize(
                self.content,
                device_id=None,
                exec_pipelined=False,
                exec_async=False,
                prefetch_queue_depth=1,
                **self.options,
            )
        except RuntimeError as error:
            refuse(f"DALI cannot load the pipeline: {error}")

    def answer(self, request: Any, made: Mapping[str, Any], rows: range) -> Any:
        """Return the rows of one request."""
        asked = set(request.requested_output_names())
        names = [name for name in self.outputs if name in asked]
        arrays = {name: np.stack([np.array(made[name][row]) for row in rows]) for name in names}
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, each) for name, each in arrays.items()])


def read_pipeline(path: Path) -> bytes:
    """Return the serialized pipeline. One that decodes on a GPU cannot run here and is refused."""
    content = serialized(path) if path.suffix == ".py" else path.read_bytes()
    if any(device in content for device in GPU_DEVICES):
        refuse(
            f"'{path}' is a DALI pipeline for a GPU, and this server has none. Build the model without a GPU "
            "to rehearse it: a portable build decodes on the CPU"
        )
    return content


def serialized(code: Path) -> bytes:
    """Return the pipeline of the function in a Python file that is decorated with @autoserialize.

    It is made without a GPU, whichever one it names.
    """
    spec = importlib.util.spec_from_file_location("autoserialize_mod", code)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    sys.modules["autoserialize_mod"] = module
    try:
        spec.loader.exec_module(module)  # type: ignore[union-attr]
        search: Any = importlib.import_module("nvidia.dali._utils.autoserialize")
        marked = search._discover_autoserialize(module, visited=[])
        if len(marked) != 1:
            raise ValueError(f"it has {len(marked)} functions with @autoserialize instead of one")
        content: bytes = marked[0](device_id=None).serialize()
    except Exception as error:  # noqa: BLE001  the code is the user's
        refuse(f"'{code}' cannot be serialized: {error}")
    return content
