"""The real Triton server with a plain model repository, and backends that need no weights.

Every backend but Python's is one small library, null_backend.c: what a load shows then is what Triton's core
says about the configuration and the folders.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import urllib3

from triton_models.base.unix_http import UnixSocketPool
from triton_rehearsal.triton.server import TritonServer

SOURCE = Path(__file__).with_name("null_backend.c")
COMPILER = shutil.which("cc")
BACKENDS = ("null", "onnxruntime", "openvino", "pytorch", "tensorflow", "tensorrt")

_PORT = 23002
_LOAD_LIMIT_S = 60.0


class PlainServer:
    """A server that loads the models of one repository on request.

    A server that ends while it loads a model is started again: that model is refused.
    """

    def __init__(self, folder: Path, *, auto_complete: bool) -> None:
        self.repository = folder / "repository"
        self.repository.mkdir(parents=True)
        self.endings = 0
        self._folder = folder
        self._auto_complete = auto_complete
        self._library = _compiled(folder)
        self._start()

    def load(self, name: str) -> tuple[bool, str]:
        """Load a model, and return if it loaded, and the server's message.

        A server may also end for what it does in the background, such as an unload. So a model is what ended
        it only if it does so twice.
        """
        for _ in range(2):
            try:
                answer = self._post(f"/v2/repository/models/{name}/load", {})
            except urllib3.exceptions.HTTPError:
                self.endings += 1
                self._server.close()
                self._start()
            else:
                return answer.status == 200, answer.data.decode("utf-8", "replace")
        return False, "the server ended"

    def unload(self, name: str) -> None:
        self._post(f"/v2/repository/models/{name}/unload", {"parameters": {"unload_dependents": True}})

    def infer(self, name: str, request: Mapping[str, object]) -> tuple[bool, str]:
        """Send a request, and return if it was answered, and the server's message."""
        answer = self._post(f"/v2/models/{name}/infer", request)
        return answer.status == 200, answer.data.decode("utf-8", "replace")

    def _post(self, path: str, body: Mapping[str, object]) -> urllib3.BaseHTTPResponse:
        return self._pool.request(
            "POST", path, body=json.dumps(body).encode(), timeout=_LOAD_LIMIT_S, retries=False
        )

    def _start(self) -> None:
        flags = [
            "--allow-http=true",
            f"--http-port={_PORT}",
            "--log-warning=false",
            "--log-error=true",
            f"--model-repository={self.repository}",
        ]
        if not self._auto_complete:
            flags.append("--disable-auto-complete-config")
        environment = {
            "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
            "SAGEMAKER_TRITON_LOG_INFO": "false",
            "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1048576",
            "SAGEMAKER_TRITON_ADDITIONAL_ARGS": " ".join(flags),
        }
        self._server = TritonServer(environment, self._folder / f"server{self.endings}")
        for name in BACKENDS:
            backend = self._server.directory / "backends" / name
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(backend)
            backend.mkdir()
            shutil.copy(self._library, backend / f"libtriton_{name}.so")
        self._pool = UnixSocketPool(self._server.sockets / str(_PORT))

    def __enter__(self) -> PlainServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.close()
        self._server.close()


def _compiled(folder: Path) -> Path:
    library = folder / "libtriton_null.so"
    command = [COMPILER or "cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True)
    return library
