"""One Triton server of this machine, which serves built roots one after the other.

The server is the image's own where this runs in NVIDIA's image. It listens on this machine only, loads a
model when it is told to and with configuration auto-complete off, as the endpoints of this project do.
"""

from __future__ import annotations

import glob
import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from triton_models.client import BINARY_TYPE, Tensors, decode, encode
from triton_models.config import CONFIG_FILE
from triton_models.errors import FleetError
from triton_models.processes import end_group, tie_to_parent

IMAGE_SERVER = Path("/opt/tritonserver/bin/tritonserver")
"""Where NVIDIA's images have it; their PATH names the folder as well."""

_NAME = "tritonserver"
_HOST = "127.0.0.1"
_OK = 200
_POLL_S = 0.02
_UNLOAD_LIMIT_S = 30.0
_SHORT_LIMIT_S = 5.0
_PORT_ATTEMPTS = 3
_PORT_TAKEN = "already in use"
_USAGE = "Usage: tritonserver"
_LOG_LINES = 20
_HEADER_LENGTH = "Inference-Header-Content-Length"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long is waited, in seconds.

    Attributes:
        start_s: Until a server is ready.
        load_s: Until a model is loaded; by default what SageMaker gives a load.
        answer_s: For an answer; by default what SageMaker gives an invocation.
    """

    start_s: float = 120.0
    load_s: float = 360.0
    answer_s: float = 60.0


def find_server(given: Path | None = None) -> Path:
    """The server's executable: the given one, the first on PATH, or that of NVIDIA's image.

    Raises:
        FleetError: There is none.
    """
    if given is None:
        found = shutil.which(_NAME)
        if found is not None:
            return Path(found)
        given = IMAGE_SERVER
    if os.access(given, os.X_OK) and given.is_file():
        return given.absolute()
    raise FleetError.of(
        what=f"there is no {_NAME}" if given == IMAGE_SERVER else f"{given} is no program",
        where=f"PATH and {IMAGE_SERVER}" if given == IMAGE_SERVER else "--tritonserver",
        expected="the Triton server, which NVIDIA's and SageMaker's Triton images have",
        why="a build is verified by the server that will serve it",
        fix="run this in the image, as the build job does; on this machine `fleet rehearse` verifies",
        rule="no-tritonserver",
    )


@contextmanager
def serving(
    tritonserver: Path | None = None, *, log: Path | None = None, limits: Limits | None = None
) -> Iterator[Server]:
    """A server for any number of built roots, one after the other; it starts when the first is loaded.

    Args:
        tritonserver: The executable; see `find_server`.
        log: A file that is given what the server prints, all of it. Without one, errors tell the end of it.
        limits: How long is waited.

    Raises:
        FleetError: There is no server.
    """
    executable = find_server(tritonserver)
    with tempfile.TemporaryDirectory(prefix="fleet-verify-", ignore_cleanup_errors=True) as folder:
        server = Server(executable, Path(folder), log=log, limits=limits or Limits())
        try:
            yield server
        finally:
            server.close()


class Server:
    """A Triton server that is started when it is needed, and again after it died or hung.

    Start it from a thread that lives as long as it is needed: the kernel ends it with that thread.

    Args:
        executable: The server's program.
        folder: An empty folder for what it works with.
        log: A file that is given what it prints.
        limits: How long is waited.

    Attributes:
        log: As given, or a file in the folder.
    """

    def __init__(self, executable: Path, folder: Path, *, log: Path | None = None, limits: Limits) -> None:
        self._executable = executable
        self._repository = folder / "models"
        self._repository.mkdir()
        self.log = (log or folder / "tritonserver.log").absolute()
        self._limits = limits
        self._mark = f"fleet{secrets.token_hex(4)}_"
        self._process: subprocess.Popen[bytes] | None = None
        self._pool: urllib3.HTTPConnectionPool | None = None
        self._since = 0

    @property
    def alive(self) -> bool:
        """Whether a server runs now."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server if none runs.

        Raises:
            FleetError: It does not become ready; with the end of its log.
        """
        if self.alive:
            return
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            self.stop()
            self._since = self._log_size()
            self._launch(_free_port())
            if self._becomes_ready():
                return
            # Someone else may take a free port between our look and the server's bind.
            if _PORT_TAKEN not in self.log_tail() or attempt == _PORT_ATTEMPTS:
                tail = self.log_tail()
                self.stop()
                raise self._not_ready(tail)

    @contextmanager
    def loaded(self, root: Path, model: str) -> Iterator[None]:
        """Load a model of a built root, with the models that it runs; unload them at the end.

        A server that answers with an error, or not at all, is ended: what it still holds of the model could
        get in the way of the next one.

        Args:
            root: The built root. Python may leave bytecode beside a model's code, for the backend's
                interpreter of release 24.10 minds no variable that forbids it. No artifact holds it.
            model: The model's name.

        Raises:
            FleetError: The server does not start, refuses the model, dies or does not answer in time.
        """
        self.start()
        self._since = self._log_size()
        links = self._link(root)
        try:
            self._load(model)
            yield
            if not (self.alive and self._unload(model, [link.name for link in links])):
                self.stop()
        except BaseException:
            self.stop()
            raise
        finally:
            for link in links:
                link.unlink()

    def infer(self, model: str, inputs: Tensors, *, where: str) -> dict[str, Any]:
        """All outputs of a loaded model.

        Args:
            model: The model's name.
            inputs: What is sent.
            where: The request, for an error.

        Raises:
            FleetError: The inputs do not fit, the server answers with an error, dies, or takes too long.
        """
        body, content_type = encode(inputs, outputs=None, content="binary", where=where)
        header = content_type.removeprefix(BINARY_TYPE)
        status, answer, length = self._ask(
            "POST",
            f"/v2/models/{model}/infer",
            body=body,
            headers={_HEADER_LENGTH: header} if header.isdigit() else {},
            limit_s=self._limits.answer_s,
            doing="answered",
            where=where,
        )
        if status != _OK:
            raise self._refused(f"the request fails with {status}: {_reason(answer)}", where=where)
        return decode(answer, f"{BINARY_TYPE}{length}" if length else "application/json")

    def log_tail(self) -> str:
        """The last lines that the server printed since it was asked for the model, without its flags."""
        try:
            with self.log.open("rb") as file:
                file.seek(self._since)
                text = file.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.partition(_USAGE)[0].splitlines()[-_LOG_LINES:])

    def stop(self) -> None:
        """End the server and what it started, and remove the shared memory that a killed one leaves."""
        if self._pool is not None:
            self._pool.close()
        if self._process is not None:
            end_group(self._process)
        self._process = self._pool = None
        for region in glob.glob(f"/dev/shm/{self._mark}*"):  # noqa: PTH207, S108  an absolute pattern
            Path(region).unlink(missing_ok=True)

    close = stop

    def _launch(self, port: int) -> None:
        self._id = f"{self._mark}{port}"
        command = [
            str(self._executable),
            f"--id={self._id}",
            "--model-control-mode=explicit",
            f"--model-repository={self._repository}",
            "--disable-auto-complete-config",
            f"--http-address={_HOST}",
            f"--http-port={port}",
            "--allow-grpc=false",
            "--allow-metrics=false",
            "--exit-timeout-secs=2",
            f"--backend-config=python,shm-region-prefix-name={self._mark}",
            # A build container may have no more than 64 MB of shared memory.
            "--backend-config=python,shm-default-byte-size=1048576",
        ]
        try:
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    command,
                    env=_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=tie_to_parent,  # noqa: PLW1509  a lone prctl call
                )
        except OSError as error:
            raise self._not_ready(f"{error.filename or self._executable}: {error.strerror}") from error
        self._pool = urllib3.HTTPConnectionPool(_HOST, port, maxsize=1, retries=False)

    def _becomes_ready(self) -> bool:
        deadline = time.monotonic() + self._limits.start_s
        while time.monotonic() < deadline and self.alive:
            if self._is_ready():
                return True
            time.sleep(_POLL_S)
        return False

    def _is_ready(self) -> bool:
        """Whether ours answers: another server may hold the port while ours is about to fail."""
        try:
            answer = self._request("GET", "/v2", limit_s=_SHORT_LIMIT_S)
            ready = self._request("GET", "/v2/health/ready", limit_s=_SHORT_LIMIT_S)
        except (urllib3.exceptions.HTTPError, OSError):
            return False
        return ready.status == _OK and answer.status == _OK and answer.json().get("name") == self._id

    def _link(self, root: Path) -> list[Path]:
        """Show every model directory of a root to the server."""
        links = []
        for config in sorted(root.absolute().glob(f"*/{CONFIG_FILE}")):
            links.append(self._repository / config.parent.name)
            links[-1].symlink_to(config.parent)
        return links

    def _load(self, model: str) -> None:
        where = f"model {model!r}"
        status, answer, _ = self._ask(
            "POST",
            f"/v2/repository/models/{model}/load",
            limit_s=self._limits.load_s,
            doing="loaded",
            where=where,
        )
        if status != _OK:
            raise self._refused(f"the Triton server does not load it: {_reason(answer)}", where=where)

    def _unload(self, model: str, names: list[str]) -> bool:
        """Unload a model with the models that it runs; whether they are all gone."""
        body = json.dumps({"parameters": {"unload_dependents": True}}).encode()
        try:
            self._request("POST", f"/v2/repository/models/{model}/unload", body=body, limit_s=_UNLOAD_LIMIT_S)
            deadline = time.monotonic() + _UNLOAD_LIMIT_S
            while time.monotonic() < deadline:
                index = self._request("POST", "/v2/repository/index", limit_s=_SHORT_LIMIT_S).json()
                states = [each.get("state") for each in index if each["name"] in names]
                if all(state in {None, "UNAVAILABLE"} for state in states):
                    return True
                time.sleep(_POLL_S)
        except (urllib3.exceptions.HTTPError, OSError):
            return False
        return False

    def _ask(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        limit_s: float,
        doing: str,
        where: str,
    ) -> tuple[int, bytes, str | None]:
        """An answer's status, body and length of its header."""
        try:
            answer = self._request(method, path, body=body, headers=headers, limit_s=limit_s)
        except urllib3.exceptions.TimeoutError:
            self.stop()
            raise self._refused(f"it is not {doing} within {limit_s:g} seconds", where=where) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            end = self._end()
            self.stop()
            raise self._refused(f"{end} before it {doing}", where=where) from error
        return answer.status, answer.data, answer.headers.get(_HEADER_LENGTH)

    def _request(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        limit_s: float,
    ) -> urllib3.BaseHTTPResponse:
        if self._pool is None:
            msg = "a server that was started"
            raise AssertionError(msg)
        return self._pool.request(method, path, body=body, headers=headers, timeout=limit_s)

    def _end(self) -> str:
        """What became of a server that closed the connection."""
        if self._process is None:
            return "the Triton server was not there"
        try:
            status = self._process.wait(timeout=_SHORT_LIMIT_S)
        except subprocess.TimeoutExpired:
            return "the Triton server closed the connection"
        return (
            f"the Triton server died of signal {-status}"
            if status < 0
            else (f"the Triton server ended with status {status}")
        )

    def _log_size(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    def _refused(self, what: str, *, where: str) -> FleetError:
        return FleetError.of(
            what=what,
            where=where,
            expected="a model that loads, and answers the examples of its declaration",
            why="the endpoint would fail in the same way; the end of the server's log:\n"
            + _indented(self.log_tail()),
            fix="mend what the log says in the declaration or the model's code, then build and verify again",
            rule="not-served",
        )

    def _not_ready(self, tail: str) -> FleetError:
        return FleetError.of(
            what="the Triton server does not start",
            where=str(self._executable),
            expected=f"a server that is ready within {self._limits.start_s:g} seconds",
            why="nothing can be verified without it",
            fix=f"read the end of its log:\n{_indented(tail)}",
            rule="tritonserver",
        )


def _environment() -> dict[str, str]:
    """What the server inherits: nothing of this process's Python, which the endpoint will not have."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    # An image whose backend minds them keeps what the build installed for its user from the models.
    return {**kept, "PYTHONNOUSERSITE": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def _free_port() -> int:
    with socket.create_server((_HOST, 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _reason(answer: bytes) -> str:
    """What Triton says in an error's body."""
    text = answer.decode(errors="replace")
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
