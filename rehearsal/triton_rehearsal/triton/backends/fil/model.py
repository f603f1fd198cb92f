"""Replaces Triton's fil backend: runs the same forest with Treelite, as the real backend does on the CPU.

On a GPU, the real backend takes memory from the server's pool alone, and a forest that its importer refuses
ends the server: see triton_models.artifact.forest_head, which is next to this file here.

The package comes from the environment that builds models; `packages` next to this file points to it. Its
version is not that of the release: `fleet check` knows which files the release's Treelite refuses.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from forest_head import ForestHead, gpu_refuses  # type: ignore[import-not-found]
from gpu import gpu_of  # type: ignore[import-not-found]
from stand_in import BatchedModel, build_package, refuse  # type: ignore[import-not-found]

# The files of the formats, from model_file in src/model.h of fil_backend (r26.06, read 2026-11-24).
FILES = {
    "xgboost": "xgboost.model",
    "xgboost_json": "xgboost.json",
    "xgboost_ubj": "xgboost.ubj",
    "lightgbm": "model.txt",
    "treelite_checkpoint": "checkpoint.tl",
}
CLASSES = 2  # TaskType::kMultiClf
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
        self.proba = self._switch("predict_proba", "false")
        self.classifier = self._switch(
            "output_class" if "output_class" in self.parameters else "is_classifier"
        )
        self.threshold = float(self._value("threshold")) if self.classifier else 0.0
        self.threads = int(self.parameters.get("cpu_nthread", 0)) or 1
        self.treelite = build_package("treelite")
        self.gtil = build_package("treelite.gtil")
        kind = self.parameters.get("model_type", "xgboost")
        if kind not in FILES:
            refuse(f"{kind} not recognized as a valid serialization format.")
        path = self.folder / (self.config.get("default_model_filename") or FILES[kind])
        self.forest = self._loaded(path, kind)
        if gpu_of(args) is not None:
            self._import_on_gpu()
        [output] = (each for each in self.config["output"] if each["name"] == "output__0")
        self.width = int(np.prod([int(size) for size in output["dims"]]))  # answers per row
        if self.proba:
            self._answer_probabilities()

    def _import_on_gpu(self) -> None:
        """End the server as the importer's exception does, which nothing catches."""
        refused = gpu_refuses(
            ForestHead.of(self.forest.get_header_accessor().get_field),
            os.environ.get("NVIDIA_TRITON_SERVER_VERSION"),
            probabilities=self.proba,
            classifier=self.classifier,
        )
        if refused:
            sys.stderr.write(
                f"terminate called after throwing an instance of 'raft::exception'\n  what(): {refused}\n"
            )
            sys.stderr.flush()
            os.kill(os.getppid(), signal.SIGABRT)
            time.sleep(_LIMIT_S)  # the load does not end before the server does

    def _loaded(self, path: Path, kind: str) -> Any:
        frontend = self.treelite.frontend
        try:
            if kind == "lightgbm":
                return frontend.load_lightgbm_model(path)
            if kind == "treelite_checkpoint":
                return self.treelite.Model.deserialize(path)
            if kind == "xgboost":
                return frontend.load_xgboost_model_legacy_binary(path)
            unknown = self._switch("xgboost_allow_unknown_field", "false")
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
        rows = np.ascontiguousarray(feed["input__0"])
        scores = self.gtil.predict(self.forest, rows, nthread=self.threads)
        scores = scores.reshape(len(rows), -1)
        if self.classifier and not self.proba:
            scores = scores.argmax(1, keepdims=True) if scores.shape[1] > 1 else scores > self.threshold
        elif self.classifier and scores.shape[1] == 1 and self.width > 1:
            scores = np.hstack([1 - scores, scores])
        if scores.shape[1] != self.width:
            message = (
                f"the forest has {scores.shape[1]} answers per row, and the configuration {self.width}; the "
                "real backend does not notice, and answers with what its memory held"
            )
            raise ValueError(message)
        known = {"output__0": scores.astype(np.float32)}
        return [known[name] for name in wanted]

    def finalize(self) -> None:
        self.forest = None
        super().finalize()

    def _switch(self, name: str, otherwise: str | None = None) -> bool:
        return self._value(name, otherwise) == "true"

    def _value(self, name: str, otherwise: str | None = None) -> str:
        value = self.parameters.get(name, otherwise)
        if value is None:
            refuse(f"Required parameter {name} not found in config")
        return str(value)
