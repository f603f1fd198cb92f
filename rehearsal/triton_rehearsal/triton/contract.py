"""SageMaker's side of the container contracts, over HTTP.

The calls of the platform to a container with one model, and to one that serves many:
https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html
https://docs.aws.amazon.com/sagemaker/latest/dg/mms-container-apis.html
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import urllib3

from triton_models.base.unix_http import UnixSocketPool
from triton_rehearsal.closing import Closing

TARGET_MODEL = "X-Amzn-SageMaker-Target-Model"
INVOCATIONS = "/invocations"

OK = 200
ALREADY_LOADED = 409
OUT_OF_MEMORY = 507

# The platform's messages in place of an answer, as callers see them.
TIMED_OUT = (
    "Your invocation timed out while waiting for a response from container primary. Review the latency "
    "metrics for each container in Amazon CloudWatch, resolve the issue, and try again."
)

# The platform's own limits, in seconds: 60 for an invocation, 360 for a load or an unload.
INVOCATION_LIMIT_S = 60.0
LOAD_LIMIT_S = 360.0
_PING_LIMIT_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The container's answer. The names of its headers are in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True if the status is 200, the only success in this contract."""
        return self.status == OK

    @property
    def text(self) -> str:
        """The body as a string, for messages."""
        return self.body.decode("utf-8", "replace")


class NoAnswerError(Exception):
    """The container closed the connection, or exceeded the platform's time limit."""


class Contract(Closing):
    """A client of the container at a Unix socket. It can be used from many threads.

    Each call has a connection of its own, as is believed of the platform's (server.connections-not-kept in
    conformance/beliefs.toml): one that is kept waits for the loads of the thread that has accepted it.
    """

    def __init__(self, server: Path, *, invocation_limit_s: float = INVOCATION_LIMIT_S) -> None:
        self._invocation_limit_s = invocation_limit_s
        self._pool = UnixSocketPool(server)

    def ping(self) -> bool:
        """Return True if the container accepts requests; False if it does not or nothing listens."""
        try:
            return self._call("GET", "/ping", limit_s=_PING_LIMIT_S).ok
        except NoAnswerError:
            return False

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()

    def _call(
        self,
        method: str,
        path: str,
        *,
        limit_s: float,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        # As bytes: a string would have to fit into Latin-1, and the name of a target model may be any text.
        sent: Any = {name: value.encode() for name, value in (headers or {}).items()}
        sent["Connection"] = "close"
        try:
            response = self._pool.urlopen(
                method, path, body=body, headers=sent, timeout=limit_s, retries=False
            )
        except urllib3.exceptions.ReadTimeoutError as error:
            raise NoAnswerError(TIMED_OUT) from error
        except urllib3.exceptions.HTTPError as error:
            message = f"{method} {path}: {error}"
            raise NoAnswerError(message) from error
        names = {name.lower(): value for name, value in response.headers.items()}
        return Answer(status=response.status, body=response.data, headers=names)


class SingleModelContract(Contract):
    """A client of a container with one model."""

    def invoke(self, *, body: bytes, headers: Mapping[str, str] | None = None) -> Answer:
        """Invoke the model."""
        return self._call("POST", INVOCATIONS, headers=headers, body=body, limit_s=self._invocation_limit_s)


class MultiModelContract(Contract):
    """A client of a container that serves many models.

    Every call about a model has the target model's name in a header, like the platform's calls. Triton names
    the model after it: without the header an unload does not find the model and blocks for 350 seconds.
    """

    def load(self, *, model_id: str, target_model: str, folder: str) -> Answer:
        """Load an unpacked artifact, at a path in the container. Returns when it is loaded or refused."""
        body = json.dumps({"model_name": model_id, "url": folder}).encode()
        headers = {TARGET_MODEL: target_model, "Content-Type": "application/json"}
        return self._call("POST", "/models", headers=headers, body=body, limit_s=LOAD_LIMIT_S)

    def unload(self, *, model_id: str, target_model: str) -> Answer:
        """Unload a model. Returns when it is unloaded."""
        headers = {TARGET_MODEL: target_model}
        return self._call("DELETE", _path(model_id), headers=headers, limit_s=LOAD_LIMIT_S)

    def list(self, *, limit_s: float = INVOCATION_LIMIT_S) -> Answer:
        """Return the container's list of loaded models."""
        return self._call("GET", "/models", limit_s=limit_s)

    def describe(self, *, model_id: str, target_model: str) -> Answer:
        """Return the container's description of a model; 404 if it is not loaded."""
        headers = {TARGET_MODEL: target_model}
        return self._call("GET", _path(model_id), headers=headers, limit_s=INVOCATION_LIMIT_S)

    def invoke(
        self, *, model_id: str, target_model: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Invoke a loaded model."""
        sent = {**(headers or {}), TARGET_MODEL: target_model}
        path = invocation_path(model_id)
        return self._call("POST", path, headers=sent, body=body, limit_s=self._invocation_limit_s)


def invocation_path(model_id: str) -> str:
    """Return the path to which requests for a model are sent."""
    return f"{_path(model_id)}/invoke"


def _path(model_id: str) -> str:
    return f"/models/{quote(model_id, safe='')}"
