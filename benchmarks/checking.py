"""The time of `fleet check`, against loading every model in a real Triton server."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import urllib3

from benchmarks.ratio import Ratio, measure
from triton_models.check.check import check_path
from triton_models.check.target import PLAIN
from triton_models.config.pbtxt import DynamicBatching, plain, tensor, write_config
from triton_rehearsal.triton.server import TritonServer

CONFIGURATIONS = 10_000
LOADED = 20  # by the server, whose time is then multiplied: all of them would take half an hour
FACTOR = CONFIGURATIONS // LOADED
_OK = 200
EMPTY = """
class TritonPythonModel:
    def execute(self, requests):
        return []
"""


def ratios() -> list[Ratio]:
    """A repository of 10,000 models, checked at once, and loaded one after the other."""
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as name:
        folder = Path(name)
        repository = folder / "repository"
        for number in range(CONFIGURATIONS):
            _write_model(repository / f"model{number}")
        with _server(repository, folder / "server") as pool:
            ratio = measure(
                f"{CONFIGURATIONS:,} configurations",
                ours=("fleet check", lambda: _check(repository)),
                theirs=(f"loading in Triton, {LOADED} times {FACTOR}", lambda: _load(pool)),
                pairs=3,
                reset=lambda: _unload(pool),
            )
    return [
        replace(
            ratio,
            theirs_s=ratio.theirs_s * FACTOR,
            low=ratio.low * FACTOR,
            middle=ratio.middle * FACTOR,
            high=ratio.high * FACTOR,
        )
    ]


def _write_model(folder: Path) -> None:
    write_config(
        plain(
            name=folder.name,
            backend="python",
            max_batch_size=8,
            inputs=[tensor("image", "FP32", [3, 224, 224])],
            outputs=[tensor("scores", "FP32", [1000])],
            batching=DynamicBatching(preferred=(4, 8), max_delay_us=100),
        ),
        folder / "config.pbtxt",
    )
    (folder / "1").mkdir()
    (folder / "1" / "model.py").write_text(EMPTY)


def _check(repository: Path) -> None:
    problems = check_path(repository, target=PLAIN)
    if problems:
        raise RuntimeError(str(problems[0]))


@contextmanager
def _server(repository: Path, folder: Path) -> Iterator[urllib3.HTTPConnectionPool]:
    with socket.create_server(("", 0)) as probe:
        port: int = probe.getsockname()[1]
    flags = (
        f"--allow-http=true --http-port={port} --model-repository={repository} --disable-auto-complete-config"
    )
    environment = {
        "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
        "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1048576",
        "SAGEMAKER_TRITON_ADDITIONAL_ARGS": flags,
    }
    with TritonServer(environment, folder):
        yield urllib3.HTTPConnectionPool("localhost", port)


def _load(pool: urllib3.HTTPConnectionPool) -> None:
    for number in range(LOADED):
        _post(pool, f"model{number}/load")


def _unload(pool: urllib3.HTTPConnectionPool) -> None:
    for number in range(LOADED):
        _post(pool, f"model{number}/unload")


def _post(pool: urllib3.HTTPConnectionPool, path: str) -> None:
    answer = pool.request("POST", f"/v2/repository/models/{path}", body=b"{}", retries=False)
    if answer.status != _OK:
        raise RuntimeError(answer.data.decode())
