"""The gain of the endpoint's defaults and the client's encoding, on a real Triton server."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.ratio import Ratio, measure
from triton_models.artifact.pbtxt import plain, tensor, write_config
from triton_models.client import Content, decode, encode
from triton_rehearsal.triton.contract import MultiModelContract
from triton_rehearsal.triton.server import TritonServer

TARGET = "echo.tar.gz"
ECHO = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "X").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)]) for x in inputs]
"""

# What triton_fleet sets by default and what the container does without it.
OURS = {
    "SAGEMAKER_MULTI_MODEL": "true",
    "SAGEMAKER_TRITON_PING_MODE": "live",
    "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
    "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1048576",
    "SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--disable-auto-complete-config",
}
CONTAINERS = {"SAGEMAKER_MULTI_MODEL": "true"}


def ratios(*, short: bool) -> Iterator[Ratio]:
    """Loading a Python model, and asking it for one image's worth of numbers."""
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as name:
        folder = Path(name)
        write_echo(folder / "model")
        with _server(OURS, folder / "ours") as ours, _server(CONTAINERS, folder / "containers") as containers:
            yield measure(
                "load a Python model",
                ours=("endpoint's defaults", lambda: _load(ours, folder / "model")),
                theirs=("container's defaults", lambda: _load(containers, folder / "model")),
                pairs=5,
                short=short,
                reset=lambda: (_unload(ours), _unload(containers)),
            )
            _load(ours, folder / "model")
            yield measure(
                "one image there and back",
                ours=("binary tensors", lambda: _ask(ours, "binary")),
                theirs=("JSON", lambda: _ask(ours, "json")),
                pairs=7,
                short=short,
            )


def write_echo(folder: Path) -> None:
    """Write the directory of a model that returns its input."""
    model = folder / "echo"
    (model / "1").mkdir(parents=True)
    (model / "1" / "model.py").write_text(ECHO)
    x, y = (tensor(name, "FP32", [-1]) for name in ("X", "Y"))
    config = plain(name="echo", backend="python", max_batch_size=8, inputs=[x], outputs=[y])
    write_config(config, model / "config.pbtxt")


@contextmanager
def _server(environment: Mapping[str, str], directory: Path) -> Iterator[MultiModelContract]:
    with TritonServer(environment, directory) as server, MultiModelContract(server.socket) as contract:
        yield contract


def _load(contract: MultiModelContract, folder: Path) -> None:
    answer = contract.load(model_id="echo", target_model=TARGET, folder=str(folder))
    if not answer.ok:
        raise RuntimeError(answer.text)


def _unload(contract: MultiModelContract) -> bool:
    return contract.unload(model_id="echo", target_model=TARGET).ok


def _ask(contract: MultiModelContract, content: Content) -> None:
    numbers = np.linspace(0, 1, 3 * 224 * 224, dtype=np.float32)[None]
    body, content_type = encode({"X": numbers}, outputs=None, content=content)
    answer = contract.invoke(
        model_id="echo", target_model=TARGET, body=body, headers={"Content-Type": content_type}
    )
    if not np.array_equal(decode(answer.body, answer.headers["content-type"])["Y"], numbers):
        raise RuntimeError(answer.text[:200])
