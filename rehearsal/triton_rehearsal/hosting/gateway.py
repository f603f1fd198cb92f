"""The server of SageMaker's runtime API on the loopback interface: an ASGI app under uvicorn."""

from __future__ import annotations

import logging
import random
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote

import uvicorn

from embedded_aws import refusal_of_pages
from triton_models.base.errors import FleetError
from triton_rehearsal.hosting.runtime_api import ApiError, Reply, unknown_operation, validation_error

# The maximum length of InvokeEndpoint's body in bytes, from the API model of sagemaker-runtime.
PAYLOAD_LIMIT = 6291456

# The maximum idle time of a connection, in seconds. After it, an SDK opens a new one.
_IDLE_LIMIT_S = 60

# Connections wait in this queue while the interpreter is busy.
_BACKLOG = 512

_LENGTH = re.compile(r"[0-9]{1,18}")
_INVOCATIONS = re.compile(r"/endpoints/([^/]+)/invocations")
_UNKNOWN = ("GET", "HEAD", "PUT", "DELETE")

_log = logging.getLogger(__name__)

Refusal = Callable[[Mapping[str, str]], str | None]
_Receive = Callable[[], Awaitable[Mapping[str, Any]]]
_Send = Callable[[Mapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A call of InvokeEndpoint. The names of headers are in lower case."""

    endpoint: str
    headers: Mapping[str, str]
    body: bytes


class Api(Protocol):
    """The answers to InvokeEndpoint."""

    async def answer(self, request: Request) -> Reply:
        """Answer without blocking the loop.

        Raises:
            ApiError: An error of the API.
        """


class Gateway:
    """Answers InvokeEndpoint over HTTP. Connections wait until it is started.

    Args:
        api: The answers.
        port: The port, or 0 for a free one.
        refusal: Called with the headers; returns the reason to refuse the request, or None. The default
            refuses web pages.

    Raises:
        FleetError: The port is taken.
    """

    def __init__(self, api: Api, *, port: int = 0, refusal: Refusal = refusal_of_pages) -> None:
        self._api, self._refusal = api, refusal
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
            return unknown_operation(method, path).reply()
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
                raise unknown_operation("POST", path)
            return await self._api.answer(Request(endpoint=unquote(match[1]), headers=headers, body=body))
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
    number = f"{random.getrandbits(128):032x}"  # unique, not secret
    unique = f"{number[:8]}-{number[8:12]}-{number[12:16]}-{number[16:20]}-{number[20:]}"
    found = [(name.encode(), value.encode("latin-1")) for name, value in reply.headers.items()]
    found += [(b"x-amzn-RequestId", unique.encode()), (b"Content-Length", b"%d" % len(reply.body))]
    return found if keep_open else [*found, (b"Connection", b"close")]


def _bind(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        raise FleetError.of(
            what=f"port {port} cannot be used: {getattr(error, 'strerror', None) or error}",
            where="the hosting of the rehearsal",
            fix="choose another port, or 0 for any free one",
        ) from error
    return listener
