"""Replaces Triton's pytorch backend: runs the same file with PyTorch's Python package on the CPU.

The package comes from the environment that builds models, which has the same Python; `packages` next to this
file points to it. It comes last on the path, so that NumPy stays that of the stub's environment.

What loads, and which tensor is which, follows `backend_rules.libtorch`, as `fleet check` does.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]
from backend_rules.libtorch import Script, input_positions, load_refusals, output_positions, request_failures  # type: ignore[import-not-found]
from backend_rules.refusal import Refusal  # type: ignore[import-not-found]
from stand_in import BatchedModel, build_package, refuse  # type: ignore[import-not-found]

Array = np.ndarray[Any, Any]


class TritonPythonModel(BatchedModel):  # type: ignore[misc]  # found only inside the stub
    """Runs model.pt, or the file in `default_model_filename`."""

    runtime = "PyTorch"
    out_of_memory = (
        "failed to load model '{model}': CUDA out of memory. Tried to allocate {wanted_mib:.2f} MiB. "
        "GPU 0 has a total capacity of {total_gib:.2f} GiB of which {free_mib:.2f} MiB is free."
    )

    def load(self, args: Mapping[str, str]) -> None:
        path = self.file("model.pt", of="model instance")
        self.take_memory(args, self.size)
        self.torch = build_package("torch")
        # A fleet runs many models on one machine: each gets one thread unless it requests more.
        self.torch.set_num_threads(int(self.parameters.get("INTRA_OP_THREAD_COUNT", 1)))
        self.module = self._load_file(path)
        self.script = self._signature()
        for refusal in load_refusals(self.config, self.script):
            refuse(refusal.message)
        self.failures: list[Refusal] = request_failures(self.config, self.script)
        self.inputs = input_positions(self.config, self.script)
        self.outputs = output_positions(self.config)
        self.types = {entry["name"]: entry["data_type"] for entry in self.config["output"]}

    def _load_file(self, path: Path) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about deprecation
                return self.torch.jit.load(str(path), map_location="cpu").eval()
        except (RuntimeError, ValueError) as error:
            message = f"failed to load model '{self.config['name']}': {error}"
            raise pb_utils.TritonModelException(message) from error

    def _signature(self) -> Script:
        if not hasattr(self.module, "forward"):
            refuse("Method 'forward' is not defined.")
        schema = self.module.forward.schema
        returns = schema.returns[0].type if schema.returns else "NoneType"
        arguments = {each.name: str(each.type) for each in schema.arguments[1:]}
        return Script(arguments=arguments, returns=str(returns))

    def run(self, wanted: Sequence[str], feed: Mapping[str, Array]) -> list[Array]:
        if self.failures:
            raise ValueError(self.failures[0].message)
        with warnings.catch_warnings(), self.torch.inference_mode():
            warnings.simplefilter("ignore")  # about read-only arrays; nothing writes to them
            answer = self.module(*self._arguments(feed))
        answers = list(answer) if isinstance(answer, tuple) else [answer]
        for name, position in self.outputs.items():
            if position >= len(answers):
                message = f"The output {name} in the model configuration refers to an output index which "
                raise ValueError(f"{message}doesn't exist. This model has {len(answers)} outputs")
        results = {name: self._result(name, answers[position]) for name, position in self.outputs.items()}
        return [results[name] for name in wanted]

    def _arguments(self, feed: Mapping[str, Array]) -> list[Any]:
        values = {name: self._value(array) for name, array in feed.items()}
        if self.script.takes_dictionary:
            return [values]
        return [values[name] for name in sorted(values, key=self.inputs.__getitem__)]

    def _value(self, array: Array) -> Any:
        return list(array.ravel()) if array.dtype == np.object_ else self.torch.from_numpy(array)

    def _result(self, name: str, value: Any) -> Array:
        if not isinstance(value, self.torch.Tensor):
            return np.array(value, dtype=np.object_)
        own: Array = value.numpy()
        expected = self.types[name]
        if own.dtype != pb_utils.TRITON_STRING_TO_NUMPY.get(expected, np.void):
            message = f"configuration expects datatype {expected} for output '{name}', model provides "
            raise ValueError(message + str(own.dtype))
        if not own.ndim:
            message = f"output '{name}' is a scalar which is not supported."
            raise ValueError(message)
        return own

    def finalize(self) -> None:
        self.module = None
        super().finalize()
