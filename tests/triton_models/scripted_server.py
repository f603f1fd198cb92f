"""An HTTP server on a real socket that answers each request as its test says: right, wrong, half or never."""

from __future__ import annotations

import asyncio
import hashlib
import json
import select
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from types import MappingProxyType
from typing import Any, BinaryIO

import boto3
import numpy as np
import uvloop

from tests.triton_models.own_clock import OwnClock
from tests.triton_models.publishing_aws import record_of
from triton_models.artifact.targets import ArtifactTarget
from triton_models.client import AsyncClient, Client, Clock
from triton_models.repository.manifest import Manifest, Publication

# A test that waits for real gives a hang this long, in seconds.
SHORT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    line: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The server's reaction: it sends bytes, maybe one at a time and without an end, then hangs or closes."""

    sends: bytes = b""
    byte_by_byte: bool = False
    hangs: bool = False
    closes: bool = False


def reply(status: int, body: bytes, **headers: str) -> Step:
    lines = [f"HTTP/1.1 {status} Reason", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return Step(sends="\r\n".join([*lines, "", ""]).encode() + body)


def error(status: int, code: str, message: str = "no", **members: object) -> Step:
    body = json.dumps({"Message": message, **members}).encode()
    return reply(status, body, Content_Type="application/json", x_amzn_errortype=code)


def answer(value: float = 3.0) -> Step:
    output = {"name": "Y", "datatype": "FP32", "shape": [1], "data": [value]}
    return reply(200, json.dumps({"outputs": [output]}).encode(), Content_Type="application/json")


def manifest(
    *targets: tuple[str, str],
    build: dict[str, Any] | None = None,
    requests: Mapping[str, bytes] = MappingProxyType({}),
    **models: str,
) -> Step:
    """An answer of S3 with a manifest of these models, or of artifacts of the model m for targets."""
    named = [("m", artifact, ArtifactTarget.parse(target)) for artifact, target in targets]
    written = Manifest()
    for model, artifact, target in [*named, *((*each, None) for each in models.items())]:
        request = requests.get(model)
        sha256 = hashlib.sha256(request).hexdigest() if request else ""
        record = replace(record_of(artifact, build=build or {}), request=sha256)
        wanted = [Publication(model=model, artifact=artifact, record=record, target=target)]
        written = written.with_published(wanted, at=datetime.now(timezone.utc), by="ann")
    body = written.to_json().encode()
    return reply(200, body, ETag='"1"', Content_Type="application/json")


def parameter(value: str) -> Step:
    return reply(200, json.dumps({"Parameter": {"Value": value}}).encode(), Content_Type="application/json")


def cut_short(step: Step, *, by: int) -> Step:
    return Step(sends=step.sends[:-by], closes=True)


CUT = Step(closes=True)
HANG = Step(hangs=True)
TRICKLE = Step(sends=b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\nx", byte_by_byte=True)
NOT_HTTP = Step(sends=b"\x00\x15nothing that HTTP knows\r\n\r\n", closes=True)
ROW = {"X": np.array([[1.0]], dtype=np.float32)}


class ScriptedServer:
    def __init__(self, otherwise: Step | Callable[[Request], Step]) -> None:
        self.otherwise = otherwise
        self.steps: list[Step] = []
        self.requests: list[Request] = []
        self.connections = 0
        self.most_at_once = self._at_once = 0
        self._context: ssl.SSLContext | None = None
        self._left = 0
        self._asked = threading.Condition()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def encrypt(self, context: ssl.SSLContext) -> None:
        """Encrypt connections from now on."""
        self._context = context
        self.url = self.url.replace("http:", "https:")

    def wait_until_asked(self, times: int) -> None:
        with self._asked:
            assert self._asked.wait_for(lambda: len(self.requests) >= times, timeout=30), self.requests

    def wait_until_left(self, times: int) -> None:
        """Wait until so many clients have ended the connection on which they were kept waiting."""
        with self._asked:
            assert self._asked.wait_for(lambda: self._left >= times, timeout=30), self._left

    def let_go(self) -> None:
        self._over.set()

    def __enter__(self) -> ScriptedServer:
        self._begin(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _begin(self, target: Callable[..., None], *args: object) -> None:
        threading.Thread(target=target, args=args, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                self._begin(self._serve, self._socket.accept()[0])

    def _serve(self, connection: socket.socket) -> None:
        self.connections += 1
        if self._context is not None:
            try:
                connection = self._context.wrap_socket(connection, server_side=True)
            except OSError:  # a client that does not trust it
                return
        with connection, connection.makefile("rb") as stream, suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (request := _read(stream)) is not None:
                goes_on = self._do(connection, self._next(request))
                with self._asked:
                    self._at_once -= 1
                if not goes_on:
                    connection.shutdown(socket.SHUT_RDWR)
                    return

    def _next(self, request: Request) -> Step:
        with self._asked:
            self.requests.append(request)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            self._asked.notify_all()
            if self.steps:
                return self.steps.pop(0)
        return self.otherwise(request) if callable(self.otherwise) else self.otherwise

    def _do(self, connection: socket.socket, step: Step) -> bool:
        """Take a step; whether the connection goes on."""
        if step.byte_by_byte:
            at = 0
            while not self._has_left(connection, 0.02):
                connection.sendall(step.sends[at : at + 1])
                at = min(at + 1, len(step.sends) - 1)
            return False
        connection.sendall(step.sends)
        if step.hangs:
            while not self._has_left(connection, 0.02):
                pass
            return False
        return not step.closes

    def _has_left(self, connection: socket.socket, wait_s: float) -> bool:
        """Wait a little; whether the client has ended its connection, or the test is over."""
        if self._over.is_set():
            return True
        if not select.select([connection], [], [], wait_s)[0]:
            return False
        with self._asked:
            self._left += 1
            self._asked.notify_all()
        return True


def _read(stream: BinaryIO) -> Request | None:
    line = stream.readline().decode().strip()
    if not line:
        return None
    headers = {}
    while header := stream.readline().decode().strip():
        name, _, value = header.partition(":")
        headers[name.lower()] = value.strip()
    return Request(line=line, headers=headers, body=stream.read(int(headers.get("content-length", 0))))


ARTIFACT = "m-1111111111111111.tar.gz"


RUNNERS: Mapping[str, Callable[..., Any]] = {"asyncio": asyncio.run, "uvloop": uvloop.run}


class InAnyLoop:
    """The client for asyncio, asked like the other one: each call is a coroutine of a loop of its own."""

    def __init__(self, client: AsyncClient, run: Callable[..., Any]) -> None:
        self._client, self._run = client, run

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *given, **named: self._run(getattr(self._client, name)(*given, **named))

    @property
    def endpoint_name(self) -> str:
        return str(self._run(self._client.endpoint_name()))


class World:
    """The three services that a client asks, and clients of them."""

    def __init__(self, open_until: ExitStack, session: boto3.Session, *, client: str = "threads") -> None:
        self.runtime = open_until.enter_context(ScriptedServer(answer()))
        self.s3 = open_until.enter_context(ScriptedServer(manifest(m=ARTIFACT)))
        self.ssm = open_until.enter_context(ScriptedServer(parameter("e")))
        self.clock = OwnClock()
        self.session, self._kind = session, client

    def exports(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": self.runtime.url,
            "AWS_ENDPOINT_URL_S3": self.s3.url,
            "AWS_ENDPOINT_URL_SSM": self.ssm.url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def client(self, **given: Any) -> Client:
        where = {} if "alias" in given else {"endpoint_name": "e"}
        usual = {"repository": "s3://bucket/models/", "session": self.session, "clock": self.clock}
        arguments = {**usual, **where, **given}
        if self._kind != "threads":
            waiting: Any = InAnyLoop(AsyncClient(**arguments), RUNNERS[self._kind])
            return waiting
        return Client(**arguments)

    def all_of(self, **given: Any) -> list[dict[str, Any]]:
        """The answers of `infer_many`."""
        if self._kind == "threads":
            return list(self.client().infer_many(**given))
        client = AsyncClient(endpoint_name="e", repository="s3://bucket/models/", session=self.session)

        async def gathered() -> list[dict[str, Any]]:
            async with client:
                return [each async for each in client.infer_many(**given)]

        answers: list[dict[str, Any]] = RUNNERS[self._kind](gathered())
        return answers

    def hurried(self, **given: Any) -> Client:
        """A client with a real clock and little time."""
        return self.client(**{"clock": Clock(), "deadline_s": SHORT_S, **given})

    def asked(self) -> list[tuple[str, str]]:
        return [
            (each.line.split("/")[2], each.headers["x-amzn-sagemaker-target-model"])
            for each in self.runtime.requests
        ]
