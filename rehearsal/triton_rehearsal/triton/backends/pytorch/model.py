"""Replaces Triton's pytorch backend: runs the same file with PyTorch's Python package on the CPU.

The file is TorchScript, or a .pt2 that AOTInductor compiled for CPUs.

The package comes from the environment that builds models, which has the same Python; `packages` next to this
file points to it. It comes last on the path, so that NumPy stays that of the stub's environment.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]
from stand_in import BatchedModel, build_package  # type: ignore[import-not-found]

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
        self.module, arguments = self._loaded(path)
        self.inputs = _by_position(self.config["input"], arguments)
        self.outputs = _by_position(self.config["output"], ())
        self.types = {each["name"]: each["data_type"] for each in self.config["output"]}

    def _loaded(self, path: Path) -> tuple[Any, list[str]]:
        """Return the network, and the names of the arguments of forward() if they are known."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about deprecation
                if path.suffix == ".pt2":
                    return self.torch._inductor.aoti_load_package(str(path)), []
                module = self.torch.jit.load(str(path), map_location="cpu").eval()
                return module, [each.name for each in module.forward.schema.arguments][1:]
        except (RuntimeError, ValueError) as error:
            message = f"failed to load model '{self.config['name']}': {error}"
            raise pb_utils.TritonModelException(message) from error

    def run(self, wanted: Sequence[str], feed: Mapping[str, Array]) -> list[Array]:
        with warnings.catch_warnings(), self.torch.inference_mode():
            warnings.simplefilter("ignore")  # about read-only arrays; nothing writes to them
            answer = self.module(*(self.torch.from_numpy(feed[name]) for name in self.inputs))
        answers = list(answer) if isinstance(answer, tuple | list) else [answer]
        results = dict(zip(self.outputs, (each.numpy() for each in answers), strict=False))
        for name in wanted:
            self._check(name, results)
        return [results[name] for name in wanted]

    def _check(self, name: str, results: Mapping[str, Array]) -> None:
        if name not in results:
            message = f"configuration has the output '{name}', and the model returns {len(results)} tensors"
            raise ValueError(message)
        own, expected = results[name].dtype, self.types[name]
        if own != pb_utils.TRITON_STRING_TO_NUMPY.get(expected, np.void):
            message = f"configuration expects datatype {expected} for output '{name}', model provides {own}"
            raise ValueError(message)

    def finalize(self) -> None:
        self.module = None
        super().finalize()


def _by_position(declared: Sequence[Mapping[str, Any]], arguments: Sequence[str]) -> list[str]:
    """Return the names in the order of the network's tensors, by the rules of the real backend.

    Inputs may have the names of forward()'s arguments. Otherwise names may end with `__<position>`. Otherwise
    the configuration's order applies.
    """
    names = [each["name"] for each in declared]
    if arguments and set(names) <= set(arguments):
        return sorted(names, key=list(arguments).index)
    ends = [name.partition("__")[2] for name in names]
    if all(end.isdigit() for end in ends):
        return [name for _, name in sorted(zip(map(int, ends), names, strict=True))]
    return names
