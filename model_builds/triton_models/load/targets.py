"""What is asked: the models of an endpoint, each by one signed request, or those of a Triton server."""

from __future__ import annotations

import asyncio
import json
import ssl
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import SplitResult, quote, urlsplit

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.encoding import BINARY_TYPE, Tensors, encode_buffers
from triton_models.client.asynchronous import AsyncClient
from triton_models.client.connections import Connections
from triton_models.client.failures import failure_of
from triton_models.client.invoke import valued
from triton_models.client.service import Request
from triton_models.client.signature import Signature, Tensor
from triton_models.client.wire import Response, Route

TRITON = Check(id="load-triton", source=FROM_ARGUMENTS)

LATE = "deadline"
"""The kind of a request without an answer in time."""

_AT_ONCE = 4096
_OK = 200


class Askable(Protocol):
    """What a load asks."""

    async def ask(self, model: int) -> str:
        """Send a request to a model, and return the kind of its error; "" if it was answered."""


class Target(ABC):
    """What `fleet load` asks: a request per model, which is sent once, whatever comes of it."""

    name: str

    def __init__(self, *, written: Mapping[str, str], limit_s: float) -> None:
        self._written, self._limit_s = written, limit_s

    @abstractmethod
    async def prepare(self, models: Sequence[str]) -> None:
        """Make a request for each model, before the run.

        Raises:
            FleetError: A model is unknown, or its inputs are.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close all connections."""

    @abstractmethod
    async def _sent(self, model: int) -> str: ...

    async def ask(self, model: int) -> str:
        """Send a request to a model, and return the kind of its error; "" if it was answered."""
        try:
            return await asyncio.wait_for(self._sent(model), self._limit_s)
        except (asyncio.TimeoutError, TimeoutError):
            return LATE
        except Exception as error:  # noqa: BLE001  it is counted by its kind
            failure = failure_of(error)
            return failure.rule if failure else type(error).__name__


class EndpointTarget(Target):
    """The models of a SageMaker endpoint, by their names in its repository."""

    def __init__(self, client: AsyncClient, *, written: Mapping[str, str], limit_s: float) -> None:
        super().__init__(written=written, limit_s=limit_s)
        self._client, self._service = client, client._service
        self._connections = Connections(client._service.route, at_once=_AT_ONCE)
        self._asked: list[tuple[str, Request, str]] = []
        self.endpoint = self.name = asyncio.run(client.endpoint_name())
        self.host = client._service._url.hostname

    async def prepare(self, models: Sequence[str]) -> None:
        """See `Target`."""
        for artifact, request in await asyncio.gather(*map(self._request, models)):
            self.add(artifact, request)

    async def _request(self, model: str) -> tuple[str, Request]:
        inputs = None
        if self._written:
            inputs = valued(self._written, await self._client.signature(model))
        return await self._client.request_of(model, inputs)

    def add(self, artifact: str, request: Request) -> None:
        """Add a request to an artifact: that of the next model."""
        self._asked.append((artifact, request, request.digest()))

    async def _sent(self, model: int) -> str:
        artifact, request, digest = self._asked[model]
        path, headers = self._service.signed(
            request, endpoint=self.endpoint, artifact=artifact, digest=digest
        )
        response = await self._connections.send(path, headers, request.buffers)
        return self._service.failure(response).rule if response.failed else ""

    async def close(self) -> None:
        """See `Target`."""
        self._connections.close()
        await self._client.close()


class TritonTarget(Target):
    """The models of a plain Triton server."""

    def __init__(self, url: str, *, written: Mapping[str, str], limit_s: float) -> None:
        super().__init__(written=written, limit_s=limit_s)
        self._url = _checked(url)
        tls = ssl.create_default_context() if self._url.scheme == "https" else None
        self._connections = Connections(Route(server=self._url, tls=tls), at_once=_AT_ONCE)
        self._asked: list[tuple[str, Mapping[str, str], Request]] = []
        self.name = url

    async def prepare(self, models: Sequence[str]) -> None:
        """See `Target`."""
        for model in models:
            found = await self._metadata(model)
            signature = Signature(inputs=_inputs(found["inputs"]))
            inputs: Tensors = valued(self._written, signature)
            if not inputs:
                inputs = {name: each.zeros() for name, each in signature.inputs.items()}
            inputs = signature.checked(inputs, None, where=f"model {model!r}")
            buffers, content_type = encode_buffers(
                inputs, outputs=None, content="binary", where=f"model {model!r}"
            )
            request = Request(buffers=buffers, content_type=content_type)
            length = content_type.removeprefix(BINARY_TYPE)
            headers = {"Content-Length": str(request.size), "Content-Type": "application/octet-stream"}
            if length.isdigit():
                headers["Inference-Header-Content-Length"] = length
            self._asked.append((f"{self._path(model)}/infer", headers, request))

    def _path(self, model: str) -> str:
        return f"{self._url.path.rstrip('/')}/v2/models/{quote(model, safe='')}"

    async def _metadata(self, model: str) -> Any:
        try:
            response = await self._connections.send(
                self._path(model), {"Content-Length": "0"}, (), method="GET"
            )
        except OSError as error:
            fix = "give the URL of a Triton server's HTTP port, such as http://localhost:8000"
            raise TRITON.error(what=f"no answer: {error}", where=self.name, fix=fix) from None
        if response.status != _OK:
            what = f"the server does not have the model {model!r}: {_said(response)}"
            raise TRITON.error(what=what, where=self.name, fix="load it there, or name another model")
        return json.loads(bytes(response.body))

    async def _sent(self, model: int) -> str:
        path, headers, request = self._asked[model]
        response = await self._connections.send(path, headers, request.buffers)
        return "" if response.status == _OK else f"status {response.status}"

    async def close(self) -> None:
        """See `Target`."""
        self._connections.close()


def _checked(url: str) -> SplitResult:
    found = urlsplit(url)
    if found.scheme in {"http", "https"} and found.hostname:
        return found
    fix = "give the URL of a Triton server's HTTP port, such as http://localhost:8000"
    raise TRITON.error(what=f"{url!r} is no URL", where="--triton", fix=fix)


def _said(response: Response) -> str:
    try:
        return str(json.loads(bytes(response.body))["error"])
    except (ValueError, KeyError, TypeError):
        return f"status {response.status}"


def _inputs(listed: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
    """Return the inputs that a server lists."""
    return {
        each["name"]: Tensor(
            data_type="STRING" if each["datatype"] == "BYTES" else each["datatype"],
            dims=tuple(int(size) for size in each["shape"]),
        )
        for each in listed
    }
