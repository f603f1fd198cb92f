"""The models that a Python model calls. A build copies this file next to the code of each model with `calls`.

SageMaker loads an artifact's ensemble with its steps and nothing else, so the caller loads what it calls.
Triton finds these models by name among all artifacts of an instance. `fleet pack` gives them names that no
other artifact has; the caller's configuration maps the declared names to them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

CALLS = "fleet.calls."

# If initialize fails right after a load or unload, the server may abort, because its thread that answered
# still uses the memory of the failed process: 1 of 60 times on Triton 24.10, and never after a pause.
_PAUSE_S = 0.5


class CalledModels:
    """The models that this model calls: loaded by `initialize`, and unloaded by `finalize`.

    Create it last in `initialize`: if something fails after it, the called models stay in memory.

    ```python
    def initialize(self, args):
        self.models = CalledModels(args)

    def execute(self, requests):
        ...
        answer = self.models.infer("ranker", {"FEATURES": features}, outputs=["SCORES"])

    def finalize(self):
        self.models.unload()
    ```

    Args:
        args: The argument of `initialize`.

    Raises:
        TritonModelException: A model cannot be loaded. Those loaded so far are unloaded.
    """

    def __init__(self, args: Mapping[str, str]) -> None:
        parameters = json.loads(args["model_config"])["parameters"]
        self._names: dict[str, str] = {
            key[len(CALLS) :]: value["string_value"]
            for key, value in parameters.items()
            if key.startswith(CALLS)
        }
        try:
            for model in self._names:
                self._load(model)
        except BaseException:
            self.unload()
            time.sleep(_PAUSE_S)
            raise

    def infer(self, model: str, inputs: Mapping[str, Any], *, outputs: Sequence[str]) -> dict[str, Any]:
        """Return the outputs of a called model by name, as NumPy arrays.

        Args:
            model: The model's name in the declaration.
            inputs: Its inputs by name, as NumPy arrays with the batch dimension.
            outputs: The names of the outputs to return.

        Raises:
            TritonModelException: The model refuses the request.
        """
        self._load(model)
        answer = self._request(model, inputs, outputs).exec()
        if answer.has_error():
            raise pb_utils.TritonModelException(f"the called model {model!r}: {answer.error().message()}")
        return {name: pb_utils.get_output_tensor_by_name(answer, name).as_numpy() for name in outputs}

    def name(self, model: str) -> str:
        """Return Triton's name of a called model, for requests with the functions of pb_utils.

        Raises:
            TritonModelException: The declaration does not name the model in `calls`.
        """
        if model not in self._names:
            declared = ", ".join(sorted(self._names)) or "nothing"
            raise pb_utils.TritonModelException(
                f"{model!r} is not in calls of the declaration, only {declared}"
            )
        return self._names[model]

    def unload(self) -> None:
        """Unload the models. Call it in `finalize`: otherwise they stay in memory after their caller."""
        for name in self._names.values():
            if pb_utils.is_model_ready(name):
                pb_utils.unload_model(name)

    def _load(self, model: str) -> None:
        # Before a request too: an instance that is being unloaded may still unload a model after the next one
        # has loaded it.
        if not pb_utils.is_model_ready(self.name(model)):
            pb_utils.load_model(self.name(model))

    def _request(self, model: str, inputs: Mapping[str, Any], outputs: Sequence[str]) -> Any:
        return pb_utils.InferenceRequest(
            model_name=self.name(model),
            inputs=[pb_utils.Tensor(name, value) for name, value in inputs.items()],
            requested_output_names=list(outputs),
            # An answer in GPU memory is no NumPy array.
            preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, 0),
        )
