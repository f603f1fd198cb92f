"""A local Triton server that serves built roots one after the other.

Inside NVIDIA's image, this is the image's own server. It listens only on this machine. Like the endpoints of
this project, it loads models on request and does not complete configurations, except those of declarations
with `auto_complete`.
"""

from __future__ import annotations

import json
import re
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
from triton_models.base.checks import Check
from triton_models.base.encoding import BINARY_TYPE, JSON_TYPE, Parameters, Tensors, decode, encode
from triton_models.base.errors import FleetError
from triton_models.deliver.verify.process import POLL_S, SHORT_LIMIT_S, ServerProcess, find_server, indented
from triton_models.facts.image_contents import backends

NOT_SERVED = Check(id="not-served", source="the answer of a Triton server")

_UNLOAD_LIMIT_S = 30.0
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
            server.close()


class Server(ServerProcess):
    """A Triton server that loads models of built roots and answers requests."""

    def __init__(self, executable: Path, folder: Path, *, log: Path | None = None, limits: Limits) -> None:
        super().__init__(executable, folder, log=log, start_s=limits.start_s)
        self._limits = limits

    @contextmanager
    def loaded(self, root: Path, model: str) -> Iterator[None]:
        """Load a model of a built root and the models that it runs; unload them at the end.

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
        try:
            path, where = f"/v2/repository/models/{model}/load", f"model {model!r}"
            self._ask(
                path,
                limit_s=self._limits.load_s,
                doing="loaded",
                failed="the Triton server does not load it",
                where=where,
            )
            yield
            if not (self.alive and self._unload(model, [link.name for link in links])):
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

    def _unload(self, model: str, names: list[str]) -> bool:
        """Unload a model with the models that it runs; return whether all are unloaded."""
        body = json.dumps({"parameters": {"unload_dependents": True}}).encode()
        try:
            self.request("POST", f"/v2/repository/models/{model}/unload", body=body, limit_s=_UNLOAD_LIMIT_S)
            deadline = time.monotonic() + _UNLOAD_LIMIT_S
            while time.monotonic() < deadline:
                index = self.request("POST", "/v2/repository/index", limit_s=SHORT_LIMIT_S).json()
                states = [each.get("state") for each in index if each["name"] in names]
                if all(state in {None, "UNAVAILABLE"} for state in states):
                    return True
                time.sleep(POLL_S)
        except (urllib3.exceptions.HTTPError, OSError):
            return False
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
