"""A local Triton server that serves built roots one after the other.

Inside NVIDIA's image, this is the image's own server. It listens only on this machine. Like the endpoints of
this project, it loads models on request and does not complete configurations, except those of declarations
with `auto_complete`.
"""

from __future__ import annotations

import glob
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import urllib3

from triton_models.artifact.pbtxt import CONFIG_FILE
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.encoding import BINARY_TYPE, JSON_TYPE, Parameters, Tensors, decode, encode
from triton_models.base.errors import FleetError
from triton_models.base.processes import descendants, end_group, tie_to_parent
from triton_models.base.unix_http import UnixSocketPool
from triton_models.facts.image_contents import IMAGE_SERVER, backends
from triton_models.facts.releases import RELEASE_VARIABLE, known_release

TRITONSERVER = Check(id="tritonserver", source="the output of the Triton server")
NO_TRITONSERVER = Check(id="no-tritonserver", source=FROM_ARGUMENTS)

SOCKETS = "FLEET_SERVER_SOCKETS"
"""The variable with the folder in which a server's ports are Unix sockets, on a machine without a network."""

ENVIRONMENT_NOT_LOADED = "The model's environment is not loaded: "
"""The beginning of a line in a server's log, if its Python is not that of a model's environment."""

POLL_S = 0.02
SHORT_LIMIT_S = 5.0

_HOST = "127.0.0.1"
_PORT_ATTEMPTS = 3
_PORT_TAKEN = "already in use"
_USAGE = "Usage: tritonserver"
_LOG_LINES = 20
_PRIVATE = re.compile(r"^RssAnon:\s*(\d+) kB", re.MULTILINE)


class ServerProcess:
    """A Triton server that starts on demand, and again after it crashed or hung.

    Start it from a thread that lives as long as the server, because the kernel ends it with that thread.
    """

    def __init__(self, executable: Path, folder: Path, *, log: Path | None = None, start_s: float) -> None:
        self._executable = executable
        self.repository = folder / "models"
        self.repository.mkdir()
        self.log = (log or folder / "tritonserver.log").absolute()
        self._start_s = start_s
        self._mark = f"fleet{secrets.token_hex(4)}_"
        self._process: subprocess.Popen[bytes] | None = None
        self._pool: urllib3.HTTPConnectionPool | None = None
        self._since = 0
        self._plugins: tuple[str, ...] = ()
        self._completes = False

    @property
    def alive(self) -> bool:
        """True if a server is running."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server if none runs."""
        if self.alive:
            return
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            self.stop()
            self.begin_log()
            self._launch(_free_port())
            if self._becomes_ready():
                return
            # Another process may take a free port before the server binds it.
            if _PORT_TAKEN not in self.log_tail() or attempt == _PORT_ATTEMPTS:
                tail = self.log_tail()
                self.stop()
                raise self._not_ready(tail)

    def configure(self, *, plugins: tuple[str, ...], completes: bool) -> None:
        """Set the libraries of TensorRT plugins to open, and whether configurations are completed.

        A running server that differs is ended.
        """
        if (plugins, completes) != (self._plugins, self._completes):
            self.stop()
            self._plugins, self._completes = plugins, completes

    def log_tail(self) -> str:
        """Return the last lines of the server's output since `begin_log`, without its flags."""
        return "\n".join(self._said().partition(_USAGE)[0].splitlines()[-_LOG_LINES:])

    def environment_not_loaded(self) -> str:
        """Return why a model runs without its environment here; empty if none does, since `begin_log`."""
        found = (line for line in self._said().splitlines() if line.startswith(ENVIRONMENT_NOT_LOADED))
        return next(found, "").removeprefix(ENVIRONMENT_NOT_LOADED)

    def _said(self) -> str:
        try:
            with self.log.open("rb") as file:
                file.seek(self._since)
                return file.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    def stop(self) -> None:
        """End the server and its children, and remove the shared memory that a killed server leaves."""
        if self._pool is not None:
            self._pool.close()
        if self._process is not None:
            end_group(self._process)
        self._process = self._pool = None
        for region in glob.glob(f"/dev/shm/{self._mark}*"):  # noqa: PTH207, S108  an absolute pattern
            Path(region).unlink(missing_ok=True)

    def begin_log(self) -> None:
        """Exclude the output so far from `log_tail`."""
        self._since = self.log.stat().st_size if self.log.exists() else 0

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        limit_s: float,
    ) -> urllib3.BaseHTTPResponse:
        """Send a request to the running server."""
        assert self._pool is not None  # noqa: S101  it was started
        return self._pool.request(method, path, body=body, headers=headers, timeout=limit_s)

    def memory(self) -> tuple[int, int]:
        """Return the bytes that the server and its children have for themselves, and in /dev/shm."""
        private = 0
        for each in {self._process.pid, *descendants(self._process.pid)} if self._process else ():
            with suppress(OSError):
                found = _PRIVATE.search(Path(f"/proc/{each}/status").read_text())
                private += 1024 * int(found[1]) if found else 0
        regions = glob.glob(f"/dev/shm/{self._mark}*")  # noqa: PTH207, S108  an absolute pattern
        return private, sum(512 * Path(each).stat().st_blocks for each in regions)

    def ending(self) -> str:
        """Return a description of how the server ended the connection."""
        if self._process is None:
            return "the Triton server was not running"
        try:
            status = self._process.wait(timeout=SHORT_LIMIT_S)
        except subprocess.TimeoutExpired:
            return "the Triton server closed the connection"
        how = f"died of signal {-status}" if status < 0 else f"ended with status {status}"
        return f"the Triton server {how}"

    def _launch(self, port: int) -> None:
        self._id = f"{self._mark}{port}"
        command = [
            str(self._executable),
            f"--id={self._id}",
            "--model-control-mode=explicit",
            f"--model-repository={self.repository}",
            *([] if self._completes else ["--disable-auto-complete-config"]),
            f"--http-address={_HOST}",
            f"--http-port={port}",
            "--allow-grpc=false",
            "--allow-metrics=false",
            "--exit-timeout-secs=2",
            f"--backend-config=python,shm-region-prefix-name={self._mark}",
            # A build container may have only 64 MB of shared memory.
            "--backend-config=python,shm-default-byte-size=1048576",
            *([f"--backend-config=tensorrt,plugins={';'.join(self._plugins)}"] if self._plugins else []),
        ]
        try:
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    command,
                    env=server_environment(),
                    # If an image's PYTHONPATH ends with a colon, Python searches the working directory.
                    cwd=self.repository,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=tie_to_parent,  # noqa: PLW1509  a single prctl call
                )
        except OSError as error:
            raise self._not_ready(f"{error.filename or self._executable}: {error.strerror}") from error
        if sockets := os.environ.get(SOCKETS):
            self._pool = UnixSocketPool(Path(sockets, str(port)))
        else:
            self._pool = urllib3.HTTPConnectionPool(_HOST, port, maxsize=1, retries=False)

    def _becomes_ready(self) -> bool:
        deadline = time.monotonic() + self._start_s
        while time.monotonic() < deadline and self.alive:
            if self._is_ready():
                return True
            time.sleep(POLL_S)
        return False

    def _is_ready(self) -> bool:
        """Return whether our server answers; another one may hold the port while ours fails to start."""
        try:
            answer = self.request("GET", "/v2", limit_s=SHORT_LIMIT_S)
            ready = self.request("GET", "/v2/health/ready", limit_s=SHORT_LIMIT_S)
        except (urllib3.exceptions.HTTPError, OSError):
            return False
        return ready.status == answer.status == HTTPStatus.OK and answer.json().get("name") == self._id

    def _not_ready(self, tail: str) -> FleetError:
        return TRITONSERVER.error(
            what=f"the Triton server is not ready within {self._start_s:g} seconds",
            where=str(self._executable),
            why="models cannot be verified without it",
            fix=f"check the end of its log:\n{indented(tail)}",
        )


def _free_port() -> int:
    with socket.create_server((_HOST, 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def indented(text: str) -> str:
    """Return the lines of a string, indented for an error."""
    return "\n".join(f"    {line}" for line in text.splitlines())


_NAME = "tritonserver"
INSTALLED = Path(sys.prefix).parent / ".venv-triton" / "bin" / _NAME
"""The server that `make rehearse` installs next to the environment that runs this."""

_NO_NUMPY = "the python3 on PATH has no NumPy for Python models"


def find_server(given: Path | None = None) -> Path:
    """Return the server: the given one, the first on PATH, NVIDIA's, or that of `make rehearse`."""
    if given is None:
        found = shutil.which(_NAME)
        if found is not None:
            return Path(found).absolute()
        given = next((each for each in (IMAGE_SERVER, INSTALLED) if each.is_file()), IMAGE_SERVER)
    if os.access(given, os.X_OK) and given.is_file():
        return given.absolute()
    raise NO_TRITONSERVER.error(
        what=f"{_NAME} not found" if given == IMAGE_SERVER else f"{given} is not an executable",
        where=f"PATH, {IMAGE_SERVER} and {INSTALLED}" if given == IMAGE_SERVER else "--tritonserver",
        why="the server that will serve a build must verify it",
        fix="run this in the image, as the build job does, or `make rehearse` to install a server here",
    )


def server_environment() -> dict[str, str]:
    """Return the server's environment, which has only the image's PYTHONPATH of this process's Python.

    In the images with DALI, PYTHONPATH is the folder of DALI's packages. They precede the image's other
    packages, an environment's and those next to a model, both on the endpoint and here. Read on 2026-11-22:
    build.py of triton-inference-server/server sets it, and the stub's pybind11 makes Python read it, 2.10
    with the images' Python 3.10 and 2.12 with their 3.12 (python_backend's CMakeLists.txt; pybind11 pull
    request 4473).
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTHON") or name == "PYTHONPATH"
    }
    release = known_release(kept.get(RELEASE_VARIABLE, ""))
    ours = release.server_variables if release else {}
    # Hide the packages that the build installed for its user, if the image's backend respects this.
    return {**ours, **kept, "PYTHONNOUSERSITE": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def numpy_of_models() -> str:
    """Return a log line with the NumPy that Python models of a local server import."""
    code = "import numpy; print(numpy.__version__, 'in', numpy.__file__)"
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            ["python3", "-c", code],
            env=server_environment(),
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    return f"Python models get NumPy {run.stdout.strip()}" if run.returncode == 0 else _NO_NUMPY


NOT_SERVED = Check(id="not-served", source="the answer of a Triton server")

_UNLOAD_LIMIT_S = 30.0
_MOST_LEAVING = 32
_SAME = "the endpoint would fail in the same way"
_FIX = "fix the error in the declaration or the model's code, then build and verify again"
_LACKS = re.compile(r"unable to find backend library for backend '([^']+)'")
_PYTHON = re.compile(r"\d+\.\d+")
_HEADER_LENGTH = "Inference-Header-Content-Length"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Time limits in seconds."""

    start_s: float = 120.0
    load_s: float = 360.0
    answer_s: float = 60.0


@contextmanager
def local_server(
    tritonserver: Path | None = None, *, log: Path | None = None, limits: Limits | None = None
) -> Iterator[Server]:
    """Yield a server for built roots, one after the other; it starts when the first one is loaded."""
    executable = find_server(tritonserver)
    with tempfile.TemporaryDirectory(prefix="fleet-verify-", ignore_cleanup_errors=True) as folder:
        server = Server(executable, Path(folder), log=log, limits=limits or Limits())
        try:
            yield server
        finally:
            server.stop()


class Server(ServerProcess):
    """A Triton server that loads models of built roots and answers requests."""

    def __init__(self, executable: Path, folder: Path, *, log: Path | None = None, limits: Limits) -> None:
        super().__init__(executable, folder, log=log, start_s=limits.start_s)
        self._limits = limits
        self._leaving: set[str] = set()

    @contextmanager
    def loaded(self, root: Path, model: str, *, hurry: bool = False) -> Iterator[None]:
        """Load a model of a built root and the models that it runs; unload them at the end.

        In a hurry, they go while others are loaded: a server takes a second to unload any model.

        A server that fails or does not answer is ended, because remains of the model could affect the next
        one. Python may write bytecode next to a model's code, because the backend's interpreter of release
        24.10 ignores the variable that forbids it. Artifacts do not contain it.
        """
        self.start()
        self.begin_log()
        links = []
        for config in sorted(root.absolute().glob(f"*/{CONFIG_FILE}")):
            links.append(self.repository / config.parent.name)
            links[-1].symlink_to(config.parent)
        names = {link.name for link in links}
        try:
            if names & self._leaving and not self._gone():
                self.stop()
                self.start()
            path, where = f"/v2/repository/models/{model}/load", f"model {model!r}"
            self._ask(
                path,
                limit_s=self._limits.load_s,
                doing="loaded",
                failed="the Triton server does not load it",
                where=where,
            )
            yield
            self._leaving |= names
            if not (self.alive and self._unload(model, wait=not hurry or len(self._leaving) > _MOST_LEAVING)):
                self.stop()
        except BaseException:
            self.stop()
            raise
        finally:
            for link in links:
                link.unlink()

    def infer(
        self, model: str, inputs: Tensors, *, parameters: Parameters | None = None, where: str
    ) -> dict[str, Any]:
        """Return all outputs of a loaded model."""
        body, content_type = encode(
            inputs, outputs=None, content="binary", parameters=parameters, where=where
        )
        header = content_type.removeprefix(BINARY_TYPE)
        answer = self._ask(
            f"/v2/models/{model}/infer",
            body=body,
            headers={_HEADER_LENGTH: header} if header.isdigit() else {},
            limit_s=self._limits.answer_s,
            doing="answered",
            failed="the request fails with {status}",
            where=where,
        )
        length = answer.headers.get(_HEADER_LENGTH)
        return decode(answer.data, f"{BINARY_TYPE}{length}" if length else JSON_TYPE)

    def _unload(self, model: str, *, wait: bool) -> bool:
        """Unload a model with the models that it runs; return False if the server does not."""
        body = json.dumps({"parameters": {"unload_dependents": True}}).encode()
        with suppress(urllib3.exceptions.HTTPError, OSError):
            self.request("POST", f"/v2/repository/models/{model}/unload", body=body, limit_s=_UNLOAD_LIMIT_S)
            return not wait or self._gone()
        return False

    def _gone(self) -> bool:
        """Wait until all models are gone that were unloaded; return False if they stay."""
        with suppress(urllib3.exceptions.HTTPError, OSError):
            deadline = time.monotonic() + _UNLOAD_LIMIT_S
            while time.monotonic() < deadline:
                index = self.request("POST", "/v2/repository/index", limit_s=SHORT_LIMIT_S).json()
                states = [each.get("state") for each in index if each["name"] in self._leaving]
                if all(state in {None, "UNAVAILABLE"} for state in states):
                    self._leaving.clear()
                    return True
                time.sleep(POLL_S)
        return False

    def _ask(
        self,
        path: str,
        *,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        limit_s: float,
        doing: str,
        failed: str,
        where: str,
    ) -> urllib3.BaseHTTPResponse:
        """Post a request, and return its response, which is not an error."""
        try:
            answer = self.request("POST", path, body=body, headers=headers, limit_s=limit_s)
        except urllib3.exceptions.TimeoutError:
            self.stop()
            raise self._refused(f"it is not {doing} within {limit_s:g} seconds", where=where) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            end = self.ending()
            self.stop()
            raise self._refused(f"{end} before it {doing}", where=where) from error
        if answer.status == HTTPStatus.OK:
            return answer
        text = answer.data.decode(errors="replace")
        with suppress(ValueError, KeyError, TypeError):
            text = str(json.loads(text)["error"])
        raise self._refused(f"{failed.format(status=answer.status)}: {text}", where=where)

    def _refused(self, what: str, *, where: str) -> FleetError:
        lacking, not_loaded = _LACKS.search(what), self.environment_not_loaded()
        known, fix = _SAME, _FIX
        if lacking and lacking[1] in backends():
            known = f"this server has no backend {lacking[1]!r}, which the image has"
            fix = "verify it in the image, or let the build job do that"
        why = f"{known}; the end of the server's log:\n{indented(self.log_tail())}"
        if not_loaded and known == _SAME:
            found = _PYTHON.search(not_loaded)
            python = found[0] if found else "3.12"
            why = f"it runs with this server's packages instead: {what}"
            fix = (
                f"install Python {python}, for example `uv python install {python}`, and verify again; or "
                f"set the server up with it: `make clean rehearse PYTHON=python{python}`"
            )
            what = f"its environment is not loaded here: {not_loaded}"
        return NOT_SERVED.error(what=what, where=where, why=why, fix=fix)
