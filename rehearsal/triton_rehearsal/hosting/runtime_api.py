"""The HTTP side of SageMaker's runtime API: responses, errors and a server that sends them."""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from triton_aws.door import refusal_of_pages
from triton_models.base.errors import FleetError
from triton_rehearsal.assumptions import holds

# The maximum length of InvokeEndpoint's body in bytes, from the API model of sagemaker-runtime.
PAYLOAD_LIMIT = 6291456

# The maximum idle time of a connection, in seconds. After it, an SDK opens a new one.
_IDLE_LIMIT_S = 60.0

_LENGTH = re.compile(r"[0-9]{1,18}")
_INVOCATIONS = re.compile(r"/endpoints/([^/]+)/invocations")
_READ_SIZE = 1 << 16

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An HTTP response."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class ApiError(Exception):
    """An error, as the SDKs model it.

    Args:
        status: The HTTP status of the error in the API model.
        kind: The exception class that an SDK raises.
        message: The message for users.
        members: The members of the error's shape, other than the message.
    """

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


Invoke = Callable[[str, Mapping[str, str], bytes], Reply]


Refusal = Callable[[Mapping[str, str]], str | None]


def listen(invoke: Invoke, *, port: int, refusal: Refusal = refusal_of_pages) -> ThreadingHTTPServer:
    """Bind a server on the loopback interface that answers InvokeEndpoint; it does not serve yet.

    Args:
        invoke: Called with endpoint name, headers (lower-case names) and body; may raise ApiError.
        port: The port, or 0 for a free one.
        refusal: Called with the headers; returns the reason to refuse the request, or None. The default
            refuses web pages.

    Raises:
        FleetError: The port is taken.
    """
    bound = {"invoke": staticmethod(invoke), "refusal": staticmethod(refusal)}
    handler = type("BoundHandler", (_Handler,), bound)
    try:
        return _Server(("127.0.0.1", port), handler)
    except OSError as error:
        raise FleetError.of(
            what=f"port {port} cannot be used: {error.strerror}",
            where="the hosting of the rehearsal",
            expected="a free port of this machine",
            fix="choose another port, or 0 for any free one",
        ) from error


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Connections wait in this queue while the interpreter is busy. The default of 5 rejects bursts.
    request_queue_size = 128
    # The end of a container releases the handlers that wait for it. It comes after the server's end.
    block_on_close = False


class _Handler(BaseHTTPRequestHandler):
    invoke: Invoke
    refusal: Refusal
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_LIMIT_S
    # Headers and body are sent at once in one packet, which saves 40 ms on the loopback interface.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        try:
            reply = self._answer()
        except ApiError as error:
            reply = error.reply()
        except Exception:  # noqa: BLE001  the connection must get an answer
            _log.exception("the hosting failed")
            reply = ApiError(500, "InternalFailure", "the rehearsal's hosting failed; see its log").reply()
        self._send(reply)

    def do_GET(self) -> None:
        self._send(_unknown_operation(self.command, self.path).reply())

    do_PUT = do_DELETE = do_GET  # noqa: N815

    def handle_expect_100(self) -> bool:
        """Let a client that sent `Expect: 100-continue` send its body."""
        go_on = super().handle_expect_100()
        self.wfile.flush()
        return go_on

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer an invalid or too long HTTP request as the API answers an invalid request."""
        self.close_connection = True
        self._send(ApiError(code, "ValidationError", message or explain or HTTPStatus(code).phrase).reply())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Do nothing: requests are not logged to standard error."""

    def _answer(self) -> Reply:
        headers = {name.lower(): _text(value) for name, value in self.headers.items()}
        if reason := self.refusal(headers):
            self.close_connection = True
            raise ApiError(403, "UnrecognizedClientException", reason)
        length = headers.get("content-length")
        if length is None or not _LENGTH.fullmatch(length):
            self.close_connection = True
            message = "The request needs a Content-Length: a body of unknown length is not accepted."
            raise validation_error(message)
        if int(length) > PAYLOAD_LIMIT and holds("payload_limit"):
            self._drain(int(length))
            text = f"HTTP content length exceeded {PAYLOAD_LIMIT} bytes."
            return Reply(status=413, body=text.encode(), headers={"Content-Type": "text/plain"})
        body = self.rfile.read(int(length))
        match = _INVOCATIONS.fullmatch(urlsplit(self.path).path)
        if not match:
            raise _unknown_operation(self.command, self.path)
        return self.invoke(unquote(match[1]), headers, body)

    def _drain(self, length: int) -> None:
        """Read and discard a body: a client that is cut off while it sends does not see the answer."""
        while length > 0 and (part := self.rfile.read(min(length, _READ_SIZE))):
            length -= len(part)

    def _send(self, reply: Reply) -> None:
        try:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("x-amzn-RequestId", str(uuid.uuid4()))
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)
        except ConnectionError:
            self.close_connection = True


def _text(value: str) -> str:
    """Return a header decoded as UTF-8: http.server decodes each byte to a character."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def _unknown_operation(method: str, path: str) -> ApiError:
    message = f"{method} {path} is not supported here: only InvokeEndpoint is"
    return ApiError(404, "UnknownOperationException", message)
