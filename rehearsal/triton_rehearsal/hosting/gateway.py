"""The server of SageMaker's runtime API: an event loop in a thread of its own, on the loopback interface.

A request that can be answered without waiting for anything but the model never leaves the loop. Every other
one gets a thread.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Protocol, cast
from urllib.parse import unquote

import httptools
import uvloop

from embedded_aws import refusal_of_pages
from triton_models.base.errors import FleetError
from triton_rehearsal.assumptions import holds
from triton_rehearsal.hosting.runtime_api import ApiError, Reply, unknown_operation, validation_error
from triton_rehearsal.triton.large_body import WORTH, LargeBody

# The maximum length of InvokeEndpoint's body in bytes, from the API model of sagemaker-runtime.
PAYLOAD_LIMIT = 6291456

# The maximum idle time of a connection, in seconds. After it, an SDK opens a new one.
_IDLE_LIMIT_S = 60.0
_SWEEP_S = 5.0

# The maximum length of a request's first line and headers, in bytes.
_HEAD_LIMIT = 1 << 16

# A longer reply is written in parts, without a copy.
_ONE_PACKET = 1 << 16

# Connections wait in this queue while the interpreter is busy.
_BACKLOG = 512

_LENGTH = re.compile(r"[0-9]{1,18}")
_INVOCATIONS = re.compile(r"/endpoints/([^/?#]+)/invocations(?:[?#].*)?", re.DOTALL)
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_UNKNOWN = ("GET", "PUT", "DELETE")

_log = logging.getLogger(__name__)

Refusal = Callable[[Mapping[str, str]], str | None]
Slow = Callable[[], Reply]
"""Returns the reply or raises ApiError, and may block."""

Done = Callable[[Reply | Slow], None]


@dataclass(frozen=True, slots=True)
class Request:
    """A call of InvokeEndpoint.

    Attributes:
        endpoint: The endpoint's name.
        headers: The headers, with lower-case names.
        body: The parts of the body.
    """

    endpoint: str
    headers: Mapping[str, str]
    body: Sequence[bytes | bytearray]


class Api(Protocol):
    """The answers to InvokeEndpoint."""

    def begin(self, request: Request, done: Done) -> None:
        """Begin to answer, on the gateway's loop and without blocking it.

        Args:
            request: The request.
            done: To be called on the loop, at once or later: with the reply, or with a function that may
                block until it has the reply. That one is called in a thread of its own.

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

    Attributes:
        port: The port.

    Raises:
        FleetError: The port is taken.
    """

    def __init__(self, api: Api, *, port: int = 0, refusal: Refusal = refusal_of_pages) -> None:
        self.api, self.refusal = api, refusal
        self.connections: set[_Connection] = set()
        listener = _bind(port)
        self.port: int = listener.getsockname()[1]
        self.loop = uvloop.new_event_loop()
        self._server = self.loop.run_until_complete(
            self.loop.create_server(lambda: _Connection(self), sock=listener, backlog=_BACKLOG)
        )
        self.loop.call_later(_SWEEP_S, self._sweep)
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop_listening(self) -> None:
        """Accept no more connections. Open ones are still served."""
        self.loop.call_soon_threadsafe(self._server.close)

    def close(self) -> None:
        """Stop listening, and close every connection after the replies that are being sent."""
        self.stop_listening()
        self.loop.call_soon_threadsafe(self._close_connections)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def _close_connections(self) -> None:
        for connection in tuple(self.connections):
            connection.close()
        self.loop.call_soon(self.loop.stop)

    def _sweep(self) -> None:
        """Close idle connections, as AWS does."""
        before = time.monotonic() - _IDLE_LIMIT_S
        for connection in tuple(self.connections):
            connection.close_if_idle(before)
        self.loop.call_later(_SWEEP_S, self._sweep)


class _Connection(asyncio.Protocol):
    """A client's connection. It answers one request after the other."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[_Received] = deque()
        self._answering: _Received | None = None
        self._received = _Received("", "", {})
        self._in_head = False
        self._head_size = 0  # of the request that is being received; its limit protects the memory
        self._refused = False
        self._seen = time.monotonic()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._gateway.connections.add(self)

    def connection_lost(self, _: Exception | None) -> None:
        self._gateway.connections.discard(self)
        self._waiting.clear()

    def data_received(self, data: bytes) -> None:
        self._seen = time.monotonic()
        if self._refused:
            return  # a client that is cut off while it sends does not see the answer
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._refuse(_fault(error))
        except httptools.HttpParserUpgrade:
            pass  # refused with its headers
        else:
            if not self._in_head and self._missing() >= WORTH:
                LargeBody(
                    self._transport,
                    self,
                    parts=self._received.body,
                    length=self._received.length,
                    done=self._complete_large,
                )
            elif self._in_head:
                self._head_size += len(data)
                if self._head_size > _HEAD_LIMIT:
                    self._refuse(_too_long())

    def on_message_begin(self) -> None:
        self._in_head, self._head_size = True, 0
        self._url: list[bytes] = []
        self._headers: dict[str, str] = {}

    def on_url(self, part: bytes) -> None:
        self._url.append(part)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value) + len(": \r\n")
        try:
            text = value.decode()
        except UnicodeError:
            text = value.decode("latin-1")
        self._headers[name.lower().decode("latin-1")] = text

    def on_headers_complete(self) -> None:
        self._in_head = False
        received = _Received(
            self._parser.get_method().decode("latin-1"), b"".join(self._url).decode("latin-1"), self._headers
        )
        self._received = received
        if "expect" in self._headers and self._headers["expect"].lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self._head_size + len(received.path) > _HEAD_LIMIT:
            received.refuse(_too_long())
        elif self._parser.should_upgrade():
            received.refuse(validation_error("The protocol of the connection cannot be changed."))
        else:
            received.check(self._gateway.refusal)
        if not received.keep_open:
            self._last(received)

    def on_body(self, part: bytes) -> None:
        if self._received.reply is None:
            self._received.body.append(part)

    def on_message_complete(self) -> None:
        self._complete(self._parser)

    def _missing(self) -> int:
        """Return the number of bytes of the body that have not arrived; 0 if the body is not kept."""
        received = self._received
        return received.length - sum(map(len, received.body)) if received.reply is None else 0

    def _complete_large(self, body: bytearray) -> None:
        parser, self._parser = self._parser, httptools.HttpRequestParser(self)
        self._received.body = [body]
        self._complete(parser)

    def _complete(self, parser: httptools.HttpRequestParser) -> None:
        if self._refused:
            return
        if not parser.should_keep_alive():
            self._received.keep_open = False
            self._last(self._received)
        elif self._answering is None:
            self._answer(self._received)
        else:
            self._waiting.append(self._received)
            self._transport.pause_reading()

    def _last(self, received: _Received) -> None:
        """Answer a request, and read no other."""
        self._refused = True
        self._waiting.append(received)
        if self._answering is None:
            self._answer(self._waiting.popleft())

    def close(self) -> None:
        """Close the connection after what is being sent."""
        self._transport.close()

    def close_if_idle(self, before: float) -> None:
        """Close the connection unless a request is being answered or something came after a time."""
        if self._answering is None and self._seen < before:
            (self._transport.abort if self._transport.is_closing() else self._transport.close)()

    def _answer(self, received: _Received) -> None:
        self._answering = received
        if received.reply is not None:
            self._send(received.reply)
            return
        try:
            self._gateway.api.begin(received.request(), self._done)
        except ApiError as error:
            self._send(error.reply())
        except Exception:  # noqa: BLE001  the connection must get an answer
            self._send(_failed())

    def _done(self, reply: Reply | Slow) -> None:
        if isinstance(reply, Reply):
            self._send(reply)
        else:
            threading.Thread(target=self._answer_slowly, args=(reply,), daemon=True).start()

    def _answer_slowly(self, slow: Slow) -> None:
        """Answer in a thread."""
        try:
            reply = slow()
        except ApiError as error:
            reply = error.reply()
        except Exception:  # noqa: BLE001  the connection must get an answer
            reply = _failed()
        try:
            self._gateway.loop.call_soon_threadsafe(self._send, reply)
        except RuntimeError:
            _log.debug("a reply came after the end of the hosting")

    def _refuse(self, error: ApiError) -> None:
        """Answer a request that is not HTTP, and read no other."""
        if not self._refused:
            received = _Received("", "", {})
            received.refuse(error)
            self._last(received)

    def _send(self, reply: Reply) -> None:
        received = cast("_Received", self._answering)
        self._answering = None
        self._seen = time.monotonic()
        if self._transport.is_closing():
            return
        head = _head(reply, keep_open=received.keep_open)
        if received.method == "HEAD":
            self._transport.write(head)
        elif len(reply.body) <= _ONE_PACKET:
            self._transport.write(head + reply.body)
        else:
            self._transport.writelines([head, reply.body])
        if not received.keep_open:
            # The client closes: if this side did while something is unread, the reply would be lost.
            self._transport.write_eof()
        elif self._waiting:
            self._gateway.loop.call_soon(self._answer_next)

    def _answer_next(self) -> None:
        if self._waiting:
            self._answer(self._waiting.popleft())
        if not self._waiting and not self._transport.is_closing():
            self._transport.resume_reading()


class _Received:
    """A request that is being received.

    Attributes:
        method: The HTTP method.
        path: The path and query of the URL.
        headers: The headers, with lower-case names.
        body: The parts of the body so far.
        length: The length of the whole body in bytes.
        reply: The reply, if it does not depend on the endpoint.
        keep_open: False if no other request follows on the connection.
    """

    __slots__ = ("body", "headers", "keep_open", "length", "method", "path", "reply")

    def __init__(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        self.method, self.path, self.headers = method, path, headers
        self.body: list[bytes | bytearray] = []
        self.length = 0
        self.reply: Reply | None = None
        self.keep_open = True

    def check(self, refusal: Refusal) -> None:
        """Refuse what needs no look at the body."""
        if self.method in _UNKNOWN:
            self.reply = unknown_operation(self.method, self.path).reply()
        elif self.method != "POST":
            self.refuse(ApiError(501, "ValidationError", f"Unsupported method ({self.method!r})"))
        elif reason := refusal(self.headers):
            self.refuse(ApiError(403, "UnrecognizedClientException", reason))
        elif not _LENGTH.fullmatch(self.headers.get("content-length", "")):
            message = "The request needs a Content-Length: a body of unknown length is not accepted."
            self.refuse(validation_error(message))
        else:
            self.length = int(self.headers["content-length"])
        if self.length > PAYLOAD_LIMIT and holds("payload_limit"):
            text = f"HTTP content length exceeded {PAYLOAD_LIMIT} bytes."
            self.reply = Reply(status=413, body=text.encode(), headers={"Content-Type": "text/plain"})

    def refuse(self, error: ApiError) -> None:
        """Answer with an error, and close the connection."""
        self.reply, self.keep_open = error.reply(), False

    def request(self) -> Request:
        """Return the call.

        Raises:
            ApiError: It is not InvokeEndpoint.
        """
        match = _INVOCATIONS.fullmatch(self.path)
        if not match:
            raise unknown_operation(self.method, self.path)
        return Request(unquote(match[1]), self.headers, self.body)


def _bind(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise FleetError.of(
            what=f"port {port} cannot be used: {getattr(error, 'strerror', None) or error}",
            where="the hosting of the rehearsal",
            expected="a free port of this machine",
            fix="choose another port, or 0 for any free one",
        ) from error
    return listener


def _head(reply: Reply, *, keep_open: bool) -> bytes:
    """Return the first line and the headers of a reply."""
    number = f"{random.getrandbits(128):032x}"  # unique, not secret
    lines = [
        f"HTTP/1.1 {reply.status} {_PHRASES[reply.status]}",
        *[f"{name}: {value}" for name, value in reply.headers.items()],
        f"x-amzn-RequestId: {number[:8]}-{number[8:12]}-{number[12:16]}-{number[16:20]}-{number[20:]}",
        f"Date: {_date(int(time.time()))}",
        f"Content-Length: {len(reply.body)}",
        "\r\n" if keep_open else "Connection: close\r\n\r\n",
    ]
    return "\r\n".join(lines).encode("latin-1")


@lru_cache(maxsize=1)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)


def _too_long() -> ApiError:
    return ApiError(431, "ValidationError", f"The headers are too long: more than {_HEAD_LIMIT} bytes.")


def _fault(error: httptools.HttpParserError) -> ApiError:
    """Return the error for a request that cannot be parsed."""
    if isinstance(error, httptools.HttpParserInvalidMethodError):
        return ApiError(501, "ValidationError", "Unsupported method")
    if "version" in str(error):
        return ApiError(505, "ValidationError", str(error))
    return validation_error(str(error))


def _failed() -> Reply:
    _log.exception("the hosting failed")
    return ApiError(500, "InternalFailure", "the rehearsal's hosting failed; see its log").reply()
