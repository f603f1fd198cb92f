"""Replaces Triton's fil backend: runs the same forest with Treelite, as the real backend does on the CPU.

What the real backend refuses: see triton_models.check.backend_rules.fil. On a GPU, it takes memory from the
server's pool alone, and a forest that its importer refuses ends the server: see
triton_models.artifact.forest_head. Both are next to this file here.

The package comes from the environment that builds models; `packages` next to this file points to it. Its
version is not that of the release: `fleet check` knows which files the release's Treelite refuses.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from backend_rules import fil  # type: ignore[import-not-found]
from backend_rules.refusal import served_dims  # type: ignore[import-not-found]
from forest_head import ForestHead, format_of, gpu_refuses  # type: ignore[import-not-found]
from gpu import gpu_of  # type: ignore[import-not-found]
from stand_in import BatchedModel, build_package, refuse  # type: ignore[import-not-found]

BOTH = 2  # probabilities of two classes
_LIMIT_S = 60.0
PARTS = 4  # FOREST_PARTS of triton_models.facts.gpu_memory

Array = np.ndarray[Any, Any]


class TritonPythonModel(BatchedModel):  # type: ignore[misc]  # found only inside the stub
    """Runs the file of the model's type, or the file in `default_model_filename`."""

    runtime = "fil"
    of_pool = True
    # CudaMemoryManager::Alloc in src/cuda_memory_manager.cc of Triton core, r25.09.
    out_of_memory = (
        "Failed to allocate CUDA memory with byte size {wanted} on GPU 0: CNMEM_STATUS_OUT_OF_MEMORY"
    )

    def load(self, args: Mapping[str, str]) -> None:
        self.take_memory(args, self.size // PARTS)
        release = os.environ.get("NVIDIA_TRITON_SERVER_VERSION")
        on_gpu = gpu_of(args) is not None
        _refuse_first(fil.check_options(self.config, release, on_gpu=on_gpu))
        _refuse_first(fil.check_tensors(self.config))
        self.options = fil.read_options(self.config, release)
        self.threads = int(self.parameters.get("cpu_nthread", 0)) or 1
        self.gtil = build_package("treelite.gtil.gtil")
        self.forest = self._read_forest(self.options.model_type)
        header = self.forest.get_header_accessor()
        self.head = ForestHead.of(header.get_field)
        sizes = {"features": self.head.features, "classes": self.head.classes, "targets": self.head.targets}
        _refuse_first(fil.check_sizes(self.config, release, **sizes))
        if on_gpu:
            self._import_on_gpu(release)
        [output] = (tensor for tensor in self.config["output"] if tensor["name"] == fil.OUTPUT)
        # The real backend drops sizes of 1, also with batches: SharedModelState of rapids-triton.
        self.shape = [size for size in served_dims(output) if size not in {-1, 1}]
        if self.options.predict_proba:
            header.set_field("postprocessor", self.head.last_of_probabilities)

    def _import_on_gpu(self, release: str | None) -> None:
        """End the server as the importer's exception does, which nothing catches."""
        proba, classifier = self.options.predict_proba, self.options.classifier
        refused = gpu_refuses(self.head, release, probabilities=proba, classifier=classifier)
        if refused:
            sys.stderr.write(
                f"terminate called after throwing an instance of 'raft::exception'\n  what(): {refused}\n"
            )
            sys.stderr.flush()
            os.kill(os.getppid(), signal.SIGABRT)
            time.sleep(_LIMIT_S)  # the load does not end before the server does

    def _read_forest(self, kind: str) -> Any:
        treelite = build_package("treelite")
        path = self.folder / self.config.get("default_model_filename", "")
        if path.is_dir():
            path /= fil.FILES[kind]
        with path.open("rb") as file:
            _refuse_first(fil.check_format(self.config, None, format_of(file.read(64))))
        unknown = self.parameters.get("xgboost_allow_unknown_field") == "true"
        try:
            return fil.load_forest(treelite, path, kind, allow_unknown=unknown)
        except treelite.TreeliteError as error:
            refuse(str(error))

    def run(self, wanted: Sequence[str], feed: Mapping[str, Array]) -> list[Array]:
        rows = np.ascontiguousarray(feed[fil.INPUT], np.float32)
        scores = fil.scores_in_fp32(
            self.gtil, self.forest, rows, classes=self.head.classes, threads=self.threads
        )
        if self.options.classifier and not self.options.predict_proba:
            two = scores.shape[1] == 1
            scores = scores > self.options.threshold if two else scores.argmax(1, keepdims=True)
        elif self.options.classifier and scores.shape[1] == 1 and int(np.prod(self.shape)) == BOTH:
            scores = np.hstack([1 - scores, scores])
        known = {fil.OUTPUT: scores.astype(np.float32).reshape(len(scores), *self.shape)}
        return [known[name] for name in wanted]

    def finalize(self) -> None:
        self.forest = None
        super().finalize()


def _refuse_first(refusals: Iterable[Any]) -> None:
    for refusal in refusals:
        refuse(refusal.message)
