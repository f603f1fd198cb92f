"""SageMaker's runtime API on the loopback interface: an ASGI app under uvicorn, and its errors."""

from __future__ import annotations

import json
import logging
import re
import socket
import threading
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import uvicorn

from embedded_aws import refusal_of_pages
from triton_models.base.errors import FleetError
from triton_models.facts.limits import PAYLOAD_LIMIT

_IDLE_LIMIT_S = 60  # after it, an SDK opens a new connection
_BACKLOG = 512  # connections that wait while the interpreter is busy

_LENGTH = re.compile(r"[0-9]{1,18}")
_INVOCATIONS = re.compile(r"/endpoints/([^/]+)/invocations")
_UNKNOWN = ("GET", "HEAD", "PUT", "DELETE")

_log = logging.getLogger(__name__)

Answers = Callable[["Request"], Awaitable["Reply"]]
Refusal = Callable[[Mapping[str, str]], str | None]
_Receive = Callable[[], Awaitable[Mapping[str, Any]]]
_Send = Callable[[Mapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An HTTP response."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class ApiError(Exception):
    """An error, as the SDKs model it, with the members of its shape other than the message."""

    def __init__(self, status: int, kind: str, message: str, **members: object) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.members = {"Message": message, **members}

    def reply(self) -> Reply:
        """Return the response that an SDK turns into this exception."""
        headers = {"Content-Type": "application/json", "x-amzn-errortype": self.kind}
        return Reply(status=self.status, body=json.dumps(self.members).encode(), headers=headers)


def validation_error(message: str) -> ApiError:
    """Return the error for an invalid request."""
    return ApiError(400, "ValidationError", message)


def _unknown_operation(method: str, path: str) -> ApiError:
    message = f"{method} {path} is not supported here: only InvokeEndpoint is"
    return ApiError(404, "UnknownOperationException", message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A call of InvokeEndpoint. The names of headers are in lower case."""

    endpoint: str
    headers: Mapping[str, str]
    body: bytes


class Gateway:
    """Answers InvokeEndpoint over HTTP. Connections wait until it is started.

    `answers` does not block the loop. `refusal` returns the reason to refuse a request with some headers, or
    None; by default web pages are refused.
    """

    def __init__(self, answers: Answers, *, port: int = 0, refusal: Refusal = refusal_of_pages) -> None:
        self._answers, self._refusal = answers, refusal
        self._listener = _bind(port)
        self.port: int = self._listener.getsockname()[1]
        config = uvicorn.Config(
            self._serve,
            http="httptools",
            loop="uvloop",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_keep_alive=_IDLE_LIMIT_S,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._listener]}, name="gateway", daemon=True
        )

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and close every connection after the replies that are being sent."""
        self._server.should_exit = True
        self._thread.join()

    async def _serve(self, scope: Mapping[str, Any], receive: _Receive, send: _Send) -> None:
        headers = {name.decode("latin-1"): _text(value) for name, value in scope["headers"]}
        path = scope["raw_path"].decode("latin-1")
        # Without a length, it is not known whether there is a body to read before the next request.
        sized = _LENGTH.fullmatch(headers.get("content-length", "")) is not None
        reply = self._refused(scope["method"], path, headers)
        if sized:
            body = await _body(receive, keep=reply is None)
        if reply is None:
            if len(body) < int(headers["content-length"]):
                return  # the client is gone
            reply = await self._answer(path, headers, body)
        answered = {"status": reply.status, "headers": _headers(reply, keep_open=sized)}
        await send({"type": "http.response.start", **answered})
        await send({"type": "http.response.body", "body": reply.body})

    def _refused(self, method: str, path: str, headers: Mapping[str, str]) -> Reply | None:
        """Return the reply to what needs no look at the body; None if it is needed."""
        length = headers.get("content-length", "")
        if method in _UNKNOWN:
            return _unknown_operation(method, path).reply()
        if method != "POST":
            return ApiError(501, "ValidationError", f"Unsupported method ({method!r})").reply()
        if reason := self._refusal(headers):
            return ApiError(403, "UnrecognizedClientException", reason).reply()
        if not _LENGTH.fullmatch(length):
            message = "The request needs a Content-Length: a body of unknown length is not accepted."
            return validation_error(message).reply()
        if int(length) > PAYLOAD_LIMIT:
            text = f"HTTP content length exceeded {PAYLOAD_LIMIT} bytes."
            return Reply(status=413, body=text.encode(), headers={"Content-Type": "text/plain"})
        return None

    async def _answer(self, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        match = _INVOCATIONS.fullmatch(path)
        try:
            if not match:
                raise _unknown_operation("POST", path)
            return await self._answers(Request(endpoint=unquote(match[1]), headers=headers, body=body))
        except ApiError as error:
            return error.reply()
        except Exception:  # noqa: BLE001  the connection must get an answer
            _log.exception("the hosting failed")
            return ApiError(500, "InternalFailure", "the rehearsal's hosting failed; see its log").reply()


async def _body(receive: _Receive, *, keep: bool) -> bytes:
    """Read a body; return it, or nothing if it is not kept. It is too short if the client has left."""
    parts, more = [], True
    while more:
        message = await receive()
        more = message.get("more_body", False)
        if keep:
            parts.append(message.get("body", b""))
    return b"".join(parts)


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeError:
        return value.decode("latin-1")


def _headers(reply: Reply, *, keep_open: bool) -> list[tuple[bytes, bytes]]:
    found = [(name.encode(), value.encode("latin-1")) for name, value in reply.headers.items()]
    found += [(b"x-amzn-RequestId", str(uuid.uuid4()).encode()), (b"Content-Length", b"%d" % len(reply.body))]
    return found if keep_open else [*found, (b"Connection", b"close")]


def _bind(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise FleetError.of(
            what=f"port {port} cannot be used: {getattr(error, 'strerror', None) or error}",
            where="the hosting of the rehearsal",
            fix="choose another port, or 0 for any free one",
        ) from error
