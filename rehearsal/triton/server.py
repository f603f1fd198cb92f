"""One real Triton server process, started as SageMaker's container starts it."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from rehearsal.triton import guard
from rehearsal.triton.backend_directory import leftovers_of, make_backends, new_mark
from rehearsal.triton.container import server_environment, server_flags
from rehearsal.triton.contract import MultiModelContract
from rehearsal.triton.runtime import ENVIRONMENT, Runtime, find_runtime
from triton_models.errors import FleetError

READY_LIMIT_S = 60.0
_POLL_S = 0.02
_STOP_LIMIT_S = 20.0
_LOG_LINES = 20
_PORT_ATTEMPTS = 3
_USAGE = "Usage: tritonserver"
_PORT_TAKEN = "already in use"


class TritonServer:
    """A server that loads models on demand, with the flags that the deployed model's environment gives.

    Where a backend needs a GPU, a stand-in of the same name runs the model's ONNX file on the CPU, so that
    the model's config.pbtxt needs no edit.

    The server's port accepts connections from outside this machine, as the real one does: no flag of
    Triton limits the address of the SageMaker port.

    Args:
        environment: The environment variables of the deployed container.
        directory: A folder that the server makes and owns: it holds the log and is removed on close, or
            when this process dies.
        port: The port to serve on; 0 for a free one.
        triton: The virtual environment with the server.

    Attributes:
        url: The address of the SageMaker port.
        pid: The server's process id.
        log: The file with the server's output.
        directory: As given.
        mark: What the name of everything begins with that the server makes outside its directory.

    Raises:
        FleetError: The server is not installed, or does not become ready; with the last lines of its log.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        directory: Path,
        *,
        port: int = 0,
        triton: Path = ENVIRONMENT,
    ) -> None:
        runtime = find_runtime(triton)
        self.directory = directory.absolute()
        self.log = self.directory / "triton.log"
        self.mark = new_mark()
        self._leftovers = leftovers_of(self.mark)
        self._close_lock = threading.Lock()
        self._guard: subprocess.Popen[bytes] | None = None
        self.directory.mkdir(parents=True)
        try:
            make_backends(runtime, self.directory / "backends", mark=self.mark)
            (self.directory / "no-models").mkdir()
            self._start(environment, runtime, port or _free_port())
            # Someone else may take a free port between our look and the server's bind.
            attempts = 1 if port else _PORT_ATTEMPTS
            while not self._wait_until_ready():
                attempts -= 1
                tail = self.log_tail()
                if _PORT_TAKEN not in tail:
                    raise _not_ready(tail, self._command)
                if not attempts:
                    raise _port_taken(tail)
                self._stop()
                self._start(environment, runtime, _free_port())
        except BaseException:
            self.close()
            raise

    def _start(self, environment: Mapping[str, str], runtime: Runtime, port: int) -> None:
        self._command = [
            str(runtime.server),
            *server_flags(environment, repository=str(self.directory / "no-models")),
            f"--sagemaker-port={port}",
            f"--backend-directory={self.directory / 'backends'}",
            f"--backend-config=python,shm-region-prefix-name={self.mark}",
            # A model made for a GPU may bring configs/cpu.pbtxt; without that file the name is ignored.
            "--model-config-name=cpu",
        ]
        charge = guard.Charge(
            command=self._command,
            environment={**_process_environment(runtime), **server_environment(environment)},
            directory=str(self.directory),
            log=str(self.log),
            leftovers=self._leftovers,
        )
        self.url = f"http://localhost:{port}"
        self._port = port
        self._ended = threading.Event()
        self._guard = guard.start(charge)
        assert self._guard.stdout is not None  # noqa: S101  given by PIPE
        self.pid = int(self._guard.stdout.readline())
        threading.Thread(target=self._watch, args=(self._guard, self._ended), daemon=True).start()

    @staticmethod
    def _watch(process: subprocess.Popen[bytes], ended: threading.Event) -> None:
        """Wait for the end of the guard's output, which is the end of the server."""
        assert process.stdout is not None  # noqa: S101  given by PIPE
        process.stdout.read()
        ended.set()

    def _wait_until_ready(self) -> bool:
        deadline = time.monotonic() + READY_LIMIT_S
        with MultiModelContract(self.url, connections=1) as contract:
            while time.monotonic() < deadline:
                # Another server may hold the port and answer while ours is about to fail.
                if _listens(self.pid, self._port) and contract.ping():
                    return True
                if self._ended.wait(_POLL_S):
                    return False
        return False

    @property
    def alive(self) -> bool:
        """Whether the server process runs."""
        return not self._ended.is_set()

    def wait_for_end(self, limit_s: float) -> bool:
        """Wait until the server has ended and is cleaned up after; False if it still runs."""
        return self._ended.wait(limit_s)

    def log_tail(self, lines: int = _LOG_LINES) -> str:
        """The last lines that the server wrote, without the list of its flags that follows a wrong one."""
        if not self.log.exists():
            return ""
        text = self.log.read_text(errors="replace").partition(_USAGE)[0]
        return "\n".join(text.splitlines()[-lines:])

    def close(self) -> None:
        """Kill the server and all its processes; remove its shared memory and its folder."""
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
        # The guard did this too, unless somebody killed it.
        guard.remove_leftovers(self._leftovers)

    def __enter__(self) -> TritonServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _process_environment(runtime: Runtime) -> dict[str, str]:
    """What a process needs at all. Nothing else is inherited: a container starts from nothing too."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TZ") if name in os.environ}
    return {**kept, **runtime.variables()}


def _free_port() -> int:
    with socket.create_server(("", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _listens(pid: int, port: int) -> bool:
    """Whether a process has a listening TCP socket on a port."""
    listening, ours = "0A", set()
    for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):
            ours.add(str(descriptor.readlink()))
    for table in Path("/proc/net").glob("tcp*"):
        rows = [row.split() for row in table.read_text().splitlines()[1:]]
        for address, state, inode in ((row[1], row[3], row[9]) for row in rows):
            if state == listening and address.endswith(f":{port:04X}") and f"socket:[{inode}]" in ours:
                return True
    return False


def _port_taken(tail: str) -> FleetError:
    return FleetError.of(
        what="the port for the Triton server is taken",
        where=tail.splitlines()[-1],
        expected="a free port of this machine",
        fix="choose another port, or 0 for any free one",
    )


def _not_ready(tail: str, command: list[str]) -> FleetError:
    indented = "\n".join(f"    {line}" for line in tail.splitlines())
    return FleetError.of(
        what="the Triton server did not become ready",
        where=" ".join(command),
        expected=f"an answer to /ping within {READY_LIMIT_S:.0f} seconds",
        fix=f"read the end of its log:\n{indented}",
    )
