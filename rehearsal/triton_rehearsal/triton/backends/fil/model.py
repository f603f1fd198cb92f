"""Replaces Triton's fil backend: runs the same forest with Treelite, as the real backend does on the CPU.

What the real backend refuses: see triton_models.check.backend_rules.fil. On a GPU, it takes memory from the
server's pool alone, and a forest that its importer refuses ends the server: see
triton_models.artifact.forest_head. Both are next to this file here.

The real backend does not compare the tensors' sizes with the forest, and reads or writes beyond them. The
stand-in refuses to load such a model.

The package comes from the environment that builds models; `packages` next to this file points to it. Its
version is not that of the release: `fleet check` knows which files the release's Treelite refuses.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from backend_rules import fil  # type: ignore[import-not-found]
from backend_rules.fil_scores import scores_in_fp32  # type: ignore[import-not-found]
from forest_head import ForestHead, format_of, gpu_refuses  # type: ignore[import-not-found]
from gpu import gpu_of  # type: ignore[import-not-found]
from stand_in import BatchedModel, build_package, refuse  # type: ignore[import-not-found]

CLASSES = 2  # TaskType::kMultiClf
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
        self._refuse_first(fil.check_options(self.config, release, on_gpu=on_gpu))
        self._refuse_first(fil.check_tensors(self.config))
        options = fil.read_options(self.config, release)
        self.proba, self.classifier = options.predict_proba, options.classifier
        self.threshold = options.threshold
        self.threads = int(self.parameters.get("cpu_nthread", 0)) or 1
        self.treelite = build_package("treelite")
        self.gtil = build_package("treelite.gtil.gtil")
        path = self.folder / (self.config.get("default_model_filename") or fil.FILES[options.model_type])
        self.forest = self._loaded(path, options.model_type)
        head = ForestHead.of(self.forest.get_header_accessor().get_field)
        self._refuse_first(
            fil.check_sizes(
                self.config, release, features=head.features, classes=head.classes, targets=head.targets
            )
        )
        if on_gpu:
            self._import_on_gpu(head, release)
        [output] = (tensor for tensor in self.config["output"] if tensor["name"] == "output__0")
        reshape = output.get("reshape")
        shape = output["dims"] if reshape is None else reshape["shape"]
        # The real backend drops sizes of 1, also with batches: SharedModelState of rapids-triton.
        self.shape = [size for size in map(int, shape) if size not in {-1, 1}]
        if self.proba:
            self._answer_probabilities()

    def _refuse_first(self, refusals: Iterable[Any]) -> None:
        for refusal in refusals:
            refuse(refusal.message)

    def _import_on_gpu(self, head: Any, release: str | None) -> None:
        """End the server as the importer's exception does, which nothing catches."""
        refused = gpu_refuses(head, release, probabilities=self.proba, classifier=self.classifier)
        if refused:
            sys.stderr.write(
                f"terminate called after throwing an instance of 'raft::exception'\n  what(): {refused}\n"
            )
            sys.stderr.flush()
            os.kill(os.getppid(), signal.SIGABRT)
            time.sleep(_LIMIT_S)  # the load does not end before the server does

    def _loaded(self, path: Path, kind: str) -> Any:
        frontend = self.treelite.frontend
        with path.open("rb") as file:
            self._refuse_first(fil.check_format(self.config, None, format_of(file.read(64))))
        try:
            if kind == "lightgbm":
                return frontend.load_lightgbm_model(path)
            if kind == "treelite_checkpoint":
                return self.treelite.Model.deserialize(path)
            if kind == "xgboost":
                return frontend.load_xgboost_model_legacy_binary(path)
            unknown = self.parameters.get("xgboost_allow_unknown_field") == "true"
            return frontend.load_xgboost_model(
                path,
                format_choice={"xgboost_json": "json", "xgboost_ubj": "ubjson"}[kind],
                allow_unknown_field=unknown,
            )
        except self.treelite.TreeliteError as error:
            refuse(str(error))

    def _answer_probabilities(self) -> None:
        header = self.forest.get_header_accessor()
        if int(header.get_field("task_type")[0]) == CLASSES:
            of_leaves = int(header.get_field("leaf_vector_shape")[1]) > 1
            header.set_field("postprocessor", "identity_multiclass" if of_leaves else "softmax")

    def run(self, wanted: Sequence[str], feed: Mapping[str, Array]) -> list[Array]:
        scores = self._scores(np.ascontiguousarray(feed["input__0"], np.float32))
        if self.classifier and not self.proba:
            scores = scores.argmax(1, keepdims=True) if scores.shape[1] > 1 else scores > self.threshold
        elif self.classifier and scores.shape[1] == 1 and int(np.prod(self.shape)) == BOTH:
            scores = np.hstack([1 - scores, scores])
        known = {"output__0": scores.astype(np.float32).reshape(len(scores), *self.shape)}
        return [known[name] for name in wanted]

    def _scores(self, rows: Array) -> Array:
        """Return the scores of rows, as the backend computes them."""
        classes = ForestHead.of(self.forest.get_header_accessor().get_field).classes
        scores: Array = scores_in_fp32(self.gtil, self.forest, rows, classes=classes, threads=self.threads)
        return scores

    def finalize(self) -> None:
        self.forest = None
        super().finalize()
