"""What the stand-ins for Triton's backends share: configuration, file, packages, memory of the GPU, batches.

It runs inside the server's Python stub, in the stub's environment, so it imports nothing from this
repository. Packages of the environment that builds models, which has the same Python, are in `packages`.
"""

from __future__ import annotations

import importlib
import json
import sys
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]
from gpu import OutOfMemoryError, take_for  # type: ignore[import-not-found]

PACKAGES = Path(__file__).parent / "packages"
_MIB, _GIB = 1 << 20, 1 << 30

Array = np.ndarray[Any, Any]


class StandIn(ABC):
    """A model in the Python stub, which calls initialize and finalize once, and execute for every batch."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Read the configuration and load the model."""
        self.config: dict[str, Any] = json.loads(args["model_config"])
        given = self.config.get("parameters", {})
        self.parameters: dict[str, str] = {name: entry["string_value"] for name, entry in given.items()}
        self.name = args["model_name"]
        self.folder = Path(args["model_repository"]) / args["model_version"]
        self.batched = self.config.get("max_batch_size", 0) > 0
        self.load(args)

    @abstractmethod
    def load(self, args: Mapping[str, str]) -> None:
        """Load the model, and refuse it if the real backend would."""

    def file(self, *defaults: str, of: str = "model") -> Path:
        """Return the file that the real backend would load: the configured one, or the first that exists."""
        path = self.folder / (self.config.get("default_model_filename") or defaults[0])
        found = next(
            (each for each in (path, *(self.folder / name for name in defaults[1:])) if each.exists()), None
        )
        return found or refuse(f"unable to find '{path}' for {of} '{self.config['name']}'")

    @property
    def size(self) -> int:
        """The bytes of all files of the version: an estimate of the model's memory on a GPU."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


def refuse(message: str) -> NoReturn:
    """Fail the load of a model."""
    raise pb_utils.TritonModelException(message)


def build_package(module: str, *, fix: str = "run `make clean rehearse`") -> Any:
    """Import a module, which may take seconds, so that only models that need it wait for it."""
    # Last on the path, so that the stub keeps its own version of all other packages, above all NumPy.
    if str(PACKAGES) not in sys.path:
        sys.path.append(str(PACKAGES))
    try:
        return importlib.import_module(module)
    except ImportError as error:
        refuse(
            f"{module} cannot be loaded: {error}. The rehearsal uses the package of the environment that "
            f"builds models, which must have the same Python as the server's: {fix}"
        )


class BatchedModel(StandIn):
    """A model whose compatible requests run as one batch, and each gets its rows."""

    runtime: str  # in the real backend's errors
    # The real backend's error if the GPU has too little memory for the model. May contain the name `model`,
    # the sizes `wanted` in bytes, `wanted_mib`, `free_mib` and `total_gib`.
    out_of_memory: str
    of_pool = False  # the backend takes the memory from the server's pool
    _share: Any = None

    def take_memory(self, args: Mapping[str, str], size: int) -> None:
        """Take the memory of the instance's GPU that the model needs, or fail as the real backend does.

        An instance without a GPU, and a model with instances on CPUs, take none. The size of its files is for
        a model that declares no memory.
        """
        try:
            self._share = take_for(args, size, of_pool=self.of_pool)
        except OutOfMemoryError as error:
            message = self.memory_message(args).format(
                model=self.name,
                wanted=error.wanted,
                wanted_mib=error.wanted / _MIB,
                free_mib=error.free / _MIB,
                total_gib=error.total / _GIB,
            )
            refuse(message)

    def memory_message(self, args: Mapping[str, str]) -> str:  # noqa: ARG002
        """Return the real backend's error if the GPU has too little memory for the model."""
        return self.out_of_memory

    def finalize(self) -> None:
        """Give the memory back. A stand-in frees its model first."""
        if self._share is not None:
            self._share.give_back()

    @abstractmethod
    def run(self, wanted: Sequence[str], feed: Mapping[str, Array]) -> Sequence[Array]:
        """Return the wanted outputs of one batch, in that order."""

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Run the requests, together if their shapes allow it. Returns one response each, in order."""
        with self._share.busy() if self._share is not None else nullcontext():
            return self._execute(requests)

    def _execute(self, requests: Sequence[Any]) -> list[Any]:
        responses: list[Any] = [None] * len(requests)
        for members in self._groups(requests).values():
            chosen = [requests[index] for index in members]
            try:
                answers = self._run(chosen)
            except Exception as error:  # noqa: BLE001  any exception belongs to these requests
                said = f"{self.runtime} error: {error}"
                # Each has an error of its own: the server ends when two responses release the same.
                answers = [pb_utils.InferenceResponse(error=pb_utils.TritonError(said)) for _ in chosen]
            for index, answer in zip(members, answers, strict=True):
                responses[index] = answer
        return responses

    def _groups(self, requests: Sequence[Any]) -> dict[Any, list[int]]:
        """Return the indices of the requests by their common properties; each group is one run."""
        groups: dict[Any, list[int]] = defaultdict(list)
        for index, request in enumerate(requests):
            shapes = tuple((entry.name(), tuple(entry.shape()[1:])) for entry in request.inputs())
            groups[shapes if self.batched else index].append(index)
        return groups

    def _run(self, requests: Sequence[Any]) -> list[Any]:
        columns = [{entry.name(): _decoded(entry.as_numpy()) for entry in r.inputs()} for r in requests]
        sizes = [len(next(iter(column.values()))) if self.batched else 0 for column in columns]
        first = columns[0]
        feed = first if len(columns) == 1 else {n: np.concatenate([c[n] for c in columns]) for n in first}
        asked = [set(request.requested_output_names()) for request in requests]
        wanted = sorted(set().union(*asked))  # the order in which the backend of ONNX Runtime answers
        results = dict(zip(wanted, self.run(wanted, feed), strict=True))
        parts = {name: self._split(name, result, sizes) for name, result in results.items()}
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor(n, _encoded(parts[n][index])) for n in wanted if n in names]
            )
            for index, names in enumerate(asked)
        ]

    def _split(self, name: str, result: Array, sizes: Sequence[int]) -> list[Array]:
        if not self.batched:
            return [result]
        if result.ndim == 0 or len(result) != sum(sizes):
            found = "a scalar" if result.ndim == 0 else str(len(result))
            message = f"output '{name}' has batch size {found}, expected {sum(sizes)}"
            raise ValueError(message)
        return np.split(result, np.cumsum(sizes)[:-1])


def _decoded(array: Array) -> Array:
    """Return strings instead of Triton's bytes, since runtimes require them."""
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
