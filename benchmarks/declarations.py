"""The time to determine the inputs and outputs of 5,000 models, from declarations or from Triton."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.many_models import declare
from benchmarks.ratio import Ratio, measure
from triton_models.config.pbtxt import plain, tensor, write_config
from triton_models.spec import MODELS
from triton_rehearsal.triton.contract import MultiModelContract
from triton_rehearsal.triton.server import TritonServer

DECLARED = 5_000
LOADED = 10  # by the server, whose time is then multiplied: all of them would take many minutes
FACTOR = DECLARED // LOADED
EMPTY = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
ENDPOINT = {
    "SAGEMAKER_MULTI_MODEL": "true",
    "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
    "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1048576",
    "SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--disable-auto-complete-config",
}


def ratios() -> list[Ratio]:
    """Each reading is a process of its own, with the bytecode there as after a first run."""
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as name:
        folder = Path(name)
        declare(folder / "models", DECLARED)
        for number in range(LOADED):
            _write_model(folder / "built" / str(number))
        with (
            TritonServer(ENDPOINT, folder / "server") as server,
            MultiModelContract(server.socket) as contract,
        ):
            loaded = measure(
                f"{DECLARED:,} declarations read and checked",
                ours=("fleet, typed", lambda: _read(folder / "models")),
                theirs=(f"loading in Triton, {LOADED} times {FACTOR}", lambda: _load(contract, folder)),
                pairs=3,
                reset=lambda: _unload(contract),
            )
    one = measure(
        "the declarations of this repository",
        ours=("no framework imported", lambda: _read(MODELS)),
        theirs=("import torch", lambda: _run("import torch")),
        pairs=5,
    )
    times = {each: getattr(loaded, each) * FACTOR for each in ("theirs_s", "low", "middle", "high")}
    return [replace(loaded, **times), one]


def _write_model(folder: Path) -> None:
    one = [tensor("x", "FP32", [1])]
    config = plain(name="model", backend="python", max_batch_size=8, inputs=one, outputs=one)
    write_config(config, folder / "model" / "config.pbtxt")
    (folder / "model" / "1").mkdir()
    (folder / "model" / "1" / "model.py").write_text(EMPTY)


def _read(models: Path) -> None:
    _run(
        "from pathlib import Path; from triton_models.spec import load_builds, model_names;"
        f"folder = Path({str(models)!r}); load_builds(model_names(folder), folder)"
    )


def _run(code: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def _load(contract: MultiModelContract, folder: Path) -> None:
    for number in range(LOADED):
        name = str(number)
        answer = contract.load(model_id=name, target_model=name, folder=str(folder / "built" / name))
        if not answer.ok:
            raise RuntimeError(answer.text)


def _unload(contract: MultiModelContract) -> None:
    for number in range(LOADED):
        contract.unload(model_id=str(number), target_model=str(number))
