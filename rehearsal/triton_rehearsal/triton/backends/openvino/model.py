"""Replaces Triton's openvino backend: runs the same file with OpenVINO's Python package, on the CPU.

It follows src/openvino.cc of openvino_backend (main, read 2026-11-24). The package comes from the environment
of the rehearsal; `packages` next to this file points to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from stand_in import BatchedModel, build_package, refuse  # type: ignore[import-not-found]

TYPES = {
    "TYPE_BOOL": "boolean",
    "TYPE_FP16": "f16",
    "TYPE_FP32": "f32",
    **{f"TYPE_INT{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"TYPE_UINT{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}

Array = np.ndarray[Any, Any]


class TritonPythonModel(BatchedModel):  # type: ignore[misc]  # found only inside the stub
    """Runs model.xml, or the file in `default_model_filename`."""

    runtime = "openvino"

    def load(self, args: Mapping[str, str]) -> None:
        del args
        config, path = self.config, self.file("model.xml")
        self.rows = int(config.get("max_batch_size", 0))
        self.openvino = build_package("openvino", fix="run `make rehearse`")
        core = self.openvino.Core()
        try:
            model = core.read_model(path)
            if self.parameters.get("RESHAPE_IO_LAYERS", "").lower() == "yes":
                model.reshape({each["name"]: self._shape(each) for each in config["input"]})
            self._check_inputs(model, config["input"])
            model = self._converted(model, config)
            self._check_outputs(model, config["output"])
            self.compiled = core.compile_model(model, "CPU", _options(self.parameters))
        except RuntimeError as error:
            refuse(str(error))
        self.request = self.compiled.create_infer_request()

    def run(self, wanted: Sequence[str], feed: Mapping[str, Array]) -> list[Array]:
        rows = len(next(iter(feed.values())))
        if self.batched and rows != self.rows:
            message = f"expected requests with batch size '{self.rows}', got '{rows}'"
            raise ValueError(message)
        found = self.request.infer(dict(feed))
        return [np.array(found[self.compiled.output(name)]) for name in wanted]

    def finalize(self) -> None:
        self.request = self.compiled = None
        super().finalize()

    def _check_inputs(self, model: Any, declared: Sequence[Mapping[str, Any]]) -> None:
        if len(model.inputs) != len(declared):
            refuse(
                f"unable to load model '{self.name}', configuration expects {len(declared)} inputs, "
                f"model provides {len(model.inputs)}"
            )
        for entry in declared:
            shape = self._found("input", entry, model.inputs)
            self._compare(entry, shape, exact=not self.batched)

    def _check_outputs(self, model: Any, declared: Sequence[Mapping[str, Any]]) -> None:
        for entry in declared:
            self._compare(entry, self._found("output", entry, model.outputs), exact=True)

    def _found(self, side: str, entry: Mapping[str, Any], tensors: Sequence[Any]) -> Any:
        shapes = {name: each.partial_shape for each in tensors for name in each.names}
        if entry["name"] not in shapes:
            allowed = ", ".join(sorted(shapes))
            refuse(f"unexpected inference {side} '{entry['name']}', allowed {side}s are: {allowed}")
        if entry["data_type"] not in TYPES:
            given = entry["data_type"]
            refuse(f"unsupported datatype {given} for {side} '{entry['name']}' for model '{self.name}'")
        return shapes[entry["name"]]

    def _compare(self, entry: Mapping[str, Any], found: Any, *, exact: bool) -> None:
        """Refuse a shape as CompareDimsSupported does: what the file fixes, the configuration fixes.

        With batches, an input's first size is the batch, and its open sizes fit any.
        """
        given = self._shape(entry)
        fits = found.rank.get_length() == len(given) and all(
            (not exact and (place == 0 or size == -1)) or real.is_dynamic or real.get_length() == size
            for place, (size, real) in enumerate(zip(given, found, strict=True))
        )
        if not fits:
            refuse(
                f"model '{self.name}', tensor '{entry['name']}': the model expects {len(found)} dimensions "
                f"(shape {found}) but the model configuration specifies {len(given)} dimensions "
                f"(shape {given})"
            )

    def _shape(self, entry: Mapping[str, Any]) -> list[int]:
        dims = [int(size) for size in entry.get("reshape", {}).get("shape", entry["dims"])]
        return [self.rows, *dims] if self.batched else dims

    def _converted(self, model: Any, config: Mapping[str, Any]) -> Any:
        """Return the network with the configuration's types and its batch."""
        steps = self.openvino.preprocess.PrePostProcessor(model)
        for entry in config["input"]:
            tensor = steps.input(entry["name"]).tensor()
            tensor.set_element_type(getattr(self.openvino.Type, TYPES[entry["data_type"]]))
            if self.batched:
                tensor.set_layout(self.openvino.Layout("N..."))
        for entry in config["output"]:
            self._found("output", entry, model.outputs)
            kind = getattr(self.openvino.Type, TYPES[entry["data_type"]])
            steps.output(entry["name"]).tensor().set_element_type(kind)
        model = steps.build()
        if self.batched:
            self.openvino.set_batch(model, self.rows)
        return model


def _options(given: Mapping[str, str]) -> dict[str, Any]:
    """Return OpenVINO's options. BF16 is not one of them: as in the real backend, the CPU decides."""
    # As in the other stand-ins, a model gets one thread unless it requests more.
    options: dict[str, Any] = {"INFERENCE_NUM_THREADS": int(given.get("INFERENCE_NUM_THREADS", 1))}
    for name in ("NUM_STREAMS", "PERFORMANCE_HINT"):
        if name in given:
            options[name] = given[name].upper()
    if given.get("HINT_BF16", "").lower() == "yes":
        options["INFERENCE_PRECISION_HINT"] = "bf16"
    return options
