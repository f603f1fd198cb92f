"""The time of `fleet check`, against loading every model in a real Triton server."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.ratio import Ratio, measure
from triton_models.base.unix_http import UnixSocketPool
from triton_models.check.check import check_path
from triton_models.check.target import PLAIN
from triton_models.config.pbtxt import DynamicBatching, plain, tensor, write_config
from triton_rehearsal.triton.server import TritonServer

CONFIGURATIONS = 10_000
FACTOR = 500  # one of so many is loaded, and the time multiplied: all of them would take half an hour
_SHORT = 1_000  # configurations
_PORT = 23000  # of those that the server may listen on
_OK = 200
EMPTY = """
class TritonPythonModel:
    def execute(self, requests):
        return []
"""


def ratios(*, short: bool) -> list[Ratio]:
    """A repository of 10,000 models, checked at once, and loaded one after the other."""
    configurations = _SHORT if short else CONFIGURATIONS
    loaded = configurations // FACTOR
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as name:
        folder = Path(name)
        repository = folder / "repository"
        for number in range(configurations):
            _write_model(repository / f"model{number}")
        with _server(repository, folder / "server") as pool:
            ratio = measure(
                f"{configurations:,} configurations",
                ours=("fleet check", lambda: _check(repository)),
                theirs=(f"loading in Triton, {loaded} times {FACTOR}", lambda: _load(pool, loaded)),
                pairs=3,
                short=short,
                reset=lambda: _unload(pool, loaded),
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
def _server(repository: Path, folder: Path) -> Iterator[UnixSocketPool]:
    models = f"--model-repository={repository} --disable-auto-complete-config"
    environment = {
        "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
        "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1048576",
        "SAGEMAKER_TRITON_ADDITIONAL_ARGS": f"--allow-http=true --http-port={_PORT} {models}",
    }
    with TritonServer(environment, folder) as server:
        yield UnixSocketPool(server.sockets / str(_PORT))


def _load(pool: UnixSocketPool, count: int) -> None:
    for number in range(count):
        _post(pool, f"model{number}/load")


def _unload(pool: UnixSocketPool, count: int) -> None:
    for number in range(count):
        _post(pool, f"model{number}/unload")


def _post(pool: UnixSocketPool, path: str) -> None:
    answer = pool.request("POST", f"/v2/repository/models/{path}", body=b"{}", retries=False)
    if answer.status != _OK:
        raise RuntimeError(answer.data.decode())
