"""One real Triton server process, started as SageMaker's container starts it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

from triton_models.base.errors import FleetError
from triton_models.facts.gpu_memory import BACKENDS, SERVER_MIB, SERVER_POOL_MIB
from triton_rehearsal.closing import Closing
from triton_rehearsal.triton import guard
from triton_rehearsal.triton.backend_directory import leftovers_of, make_backends, new_mark
from triton_rehearsal.triton.container import only_model, server_environment, server_flags
from triton_rehearsal.triton.contract import Contract
from triton_rehearsal.triton.gpu import ModelledGpu
from triton_rehearsal.triton.machine import Machine
from triton_rehearsal.triton.runtime import ENVIRONMENT, Runtime, find_runtime

DIFFERENCES: Mapping[str, str] = MappingProxyType(
    {
        "HOME": "this machine's user, instead of root",
        "LANG": "this machine's, if it is set",
        "TZ": "as LANG",
        "PATH": "the server's own Python, then this machine's programs, after stand-ins for the image's",
        "LD_LIBRARY_PATH": "the libraries of the bundled server",
        "PYTHONNOUSERSITE": "packages of this machine's user are in no container",
        "--sagemaker-port": "a free one, because several containers share this machine",
        "--model-repository": "a folder of the instance",
        "--backend-directory": "the stand-ins for the image's backends",
        "--backend-config=python,shm-region-prefix-name": "marks the shared memory of this instance",
        "--model-config-name": "a model for GPUs may have a configuration for machines without one",
    }
)
"""The variables and flags that differ from those of a deployed container, with reasons."""

START_LIMIT_S = 60.0
_POLL_S = 0.02
_STOP_LIMIT_S = 20.0
_LOG_LINES = 20
_USAGE = "Usage: tritonserver"
_OF_USAGE = re.compile(r"\s|.*:$")
_PORT = 8080
_POOL = "--cuda-memory-pool-byte-size=0:"


class TritonServer(Closing):
    """A server with the flags from the deployed container's environment. It loads models on demand, or one.

    For a backend that needs a GPU, a stand-in with the same name runs the model's ONNX file on the CPU, so
    the model's config.pbtxt can stay unchanged.

    It does not listen on a network: each of its ports is a Unix socket that only this user can open, since
    anyone who reaches Triton can run code through it.

    The folder is created and owned by the server; it contains the log, and is removed on close or when this
    process dies. Without a machine, stand-ins for plans of any GPU load. `gpu_memory` limits the memory of
    each GPU, in bytes. If it is all of the GPU, the server and the libraries of backends take theirs of it;
    otherwise each model takes as much as its files, or as it declares. `fill` creates the folder that the
    container sees as /opt/ml/model, with the only model to serve; None for a multi-model server.

    A FleetError says why it cannot start; if it does not become ready, with the last lines of its log.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        directory: Path,
        *,
        triton: Path = ENVIRONMENT,
        machine: Machine | None = None,
        gpu_memory: int | None = None,
        whole_gpu: bool = False,
        fill: Callable[[Path], None] | None = None,
        ready_limit_s: float = START_LIMIT_S,
    ) -> None:
        runtime = find_runtime(triton)
        self.directory = directory.absolute()
        self.log = self.directory / "triton.log"
        self.mark = new_mark()
        self.sockets = Path(f"/tmp/{self.mark}sockets")  # noqa: S108  short, as the rest is there
        self.socket = self.sockets / str(_PORT)
        self._leftovers = leftovers_of(self.mark)
        self._close_lock = threading.Lock()
        self._guard: subprocess.Popen[bytes] | None = None
        self.directory.mkdir(parents=True)
        try:
            of_image = machine.backends() if machine else None
            make_backends(runtime, self.directory / "backends", mark=self.mark, of_image=of_image)
            self.model = self._only_model(environment, fill)
            self.gpu = (
                None
                if gpu_memory is None
                else _gpu(self.directory / "gpu", environment, total=gpu_memory, whole=whole_gpu)
            )
            self.sockets.mkdir(mode=0o700)
            self._inherited = _process_environment(runtime, machine, self.directory / "bin")
            self._start(environment, runtime)
            if not self._becomes_ready(ready_limit_s):
                raise _not_ready(self.log_tail(), self._command, ready_limit_s)
        except BaseException:
            self.close()
            raise

    def _only_model(self, environment: Mapping[str, str], fill: Callable[[Path], None] | None) -> str | None:
        """Make the model repository. Returns the only model to serve; None for a multi-model server."""
        if fill is None:
            self._repository = self.directory / "no-models"
            self._repository.mkdir()
            return None
        self._repository = self.directory / "opt" / "ml" / "model"
        self._repository.parent.mkdir(parents=True)
        fill(self._repository)
        return only_model(environment, self._repository)

    def _start(self, environment: Mapping[str, str], runtime: Runtime) -> None:
        self._command = [
            str(runtime.server),
            *server_flags(environment, repository=str(self._repository), model=self.model),
            f"--sagemaker-port={_PORT}",
            f"--backend-directory={self.directory / 'backends'}",
            f"--backend-config=python,shm-region-prefix-name={self.mark}",
            # A model for a GPU may include configs/cpu.pbtxt. Without this file the name is ignored.
            "--model-config-name=cpu",
        ]
        charge = guard.Charge(
            command=self._command,
            environment={**self._inherited, **server_environment(environment, model=self.model)},
            directory=str(self.directory),
            log=str(self.log),
            leftovers=self._leftovers,
            sockets=str(self.sockets),
        )
        self._ended = threading.Event()
        self._guard = guard.start(charge)
        self.pid = guard.started(self._guard)
        threading.Thread(target=self._watch, args=(self._guard, self._ended), daemon=True).start()

    @staticmethod
    def _watch(process: subprocess.Popen[bytes], ended: threading.Event) -> None:
        """Wait for the end of the guard's output, which marks the end of the server."""
        assert process.stdout is not None  # noqa: S101  given by PIPE
        process.stdout.read()
        ended.set()

    def _becomes_ready(self, limit_s: float) -> bool:
        deadline = time.monotonic() + limit_s
        with Contract(self.socket) as contract:
            while time.monotonic() < deadline:
                if contract.ping():
                    return True
                if self._ended.wait(_POLL_S):
                    return False
        return False

    @property
    def alive(self) -> bool:
        """True if the server process runs."""
        return not self._ended.is_set()

    def wait_for_end(self, limit_s: float) -> bool:
        """Wait until the server has ended and its files are removed. Returns False if it still runs."""
        return self._ended.wait(limit_s)

    def log_tail(self, lines: int = _LOG_LINES) -> str:
        """Return the server's last lines, without the list of flags that comes with a refused one."""
        if not self.log.exists():
            return ""
        before, _, usage = self.log.read_text(errors="replace").partition(_USAGE)
        # The list is indented but for its headings. Refused values are named after it, unknown flags before.
        after = [each for each in usage.splitlines()[1:] if each.strip() and not _OF_USAGE.match(each)]
        return "\n".join([*before.splitlines(), *after][-lines:])

    def close(self) -> None:
        """Kill the server and all its processes, and remove its shared memory and folder."""
        with self._close_lock:
            self._stop()
            shutil.rmtree(self.directory, ignore_errors=True)

    def _stop(self) -> None:
        if self._guard is None:
            return
        assert self._guard.stdin is not None  # noqa: S101  given by PIPE
        self._guard.stdin.close()
        try:
            self._guard.wait(timeout=_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()
        self._ended.wait(_STOP_LIMIT_S)
        if self._guard.stdout is not None and self._ended.is_set():
            self._guard.stdout.close()
        # The guard did this too, unless it was killed.
        guard.remove_leftovers(self._leftovers)


def _gpu(folder: Path, environment: Mapping[str, str], *, total: int, whole: bool) -> ModelledGpu:
    flags = server_flags(environment, repository="")
    sizes = [flag.removeprefix(_POOL) for flag in flags if flag.startswith(_POOL)]
    pool = int(sizes[-1]) if sizes else SERVER_POOL_MIB << 20
    terms = {name: {key: mib << 20 for key, mib in asdict(of).items()} for name, of in BACKENDS.items()}
    return ModelledGpu.create(
        folder,
        total=total,
        reserved=(SERVER_MIB << 20) + pool if whole else 0,
        pool=pool if whole else min(pool, total),
        backends=terms if whole else {},
        auto_completes="--disable-auto-complete-config" not in flags,
    )


def _process_environment(runtime: Runtime, machine: Machine | None, programs: Path) -> dict[str, str]:
    """Return the variables that a process needs and those of the image, and no others."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TZ") if name in os.environ}
    own = {**kept, **runtime.variables()}
    if machine is None:
        return own
    machine.install(programs)
    return {**own, **machine.variables(), "PATH": f"{programs}{os.pathsep}{own['PATH']}"}


def _not_ready(tail: str, command: list[str], limit_s: float) -> FleetError:
    indented = "\n".join(f"    {line}" for line in tail.splitlines())
    return FleetError.of(
        what="the Triton server did not become ready",
        where=" ".join(command),
        fix=f"let it answer /ping within {limit_s:.0f} seconds; the end of its log:\n{indented}",
    )
