"""The server of the embedded AWS: moto's server behind the door, plus the answers of custom resources."""

from __future__ import annotations

import io
import json
import logging
import re
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from http import HTTPStatus
from typing import Any

from embedded_aws.door import BoundedThreads, Door, behind, error_answer, refuse, service_of
from embedded_aws.errors import PortError
from embedded_aws.given import Prices

_log = logging.getLogger(__name__)

# The interval, in seconds, at which the server checks if it must stop: the longest time that closing takes.
_POLL_SECONDS = 0.05
_PIECE = 1 << 20

# moto's words for an operation that it lacks.
_NO_ACTION = "action has not been implemented"
# The services that sign with another name than IAM's.
_SIGNED_AS = {"monitoring": "cloudwatch"}

_Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
_RUNTIME = "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME"
_INVOCATION = re.compile(r"/endpoints/([^/]+)/(async-invocations|invocations(-response-stream)?)")


def listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        raise PortError(f"port {port} cannot be used: {getattr(error, 'strerror', None) or error}") from error
    return listener


class _Pieces(io.BufferedIOBase):
    """Sends in pieces, because a socket's time limit is for all that is sent at once: models are large."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        for begin in range(0, len(view), _PIECE):
            self._connection.sendall(view[begin : begin + _PIECE])
        return len(view)


def serve(
    listener: socket.socket, door: Door, prices: Prices, closing: ExitStack, elsewhere: Mapping[str, str]
) -> None:
    """Answer on the listener from threads of this process until `closing` closes."""
    # moto takes a second or two to import.
    from embedded_aws.moto_gaps import close_gaps

    # This comes first: it imports moto without the caller's AWS profile.
    close_gaps()
    from moto.core.config import default_user_config
    from moto.moto_api._internal.models import moto_api_backend
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler
    from werkzeug.serving import ThreadedWSGIServer

    from embedded_aws import given
    from embedded_aws.cloudformation.custom_resource import ANSWERS

    class QuietRequestHandler(MotoRequestHandler):
        """Keeps each request off the terminal, and ends idle connections."""

        timeout = BoundedThreads.idle_limit_s

        def setup(self) -> None:
            super().setup()
            self.wfile = _Pieces(self.connection)

        def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002, ARG002 (werkzeug's name)
            _log.debug(message, *args)

    class Server(BoundedThreads, ThreadedWSGIServer):
        """Limits the number of connections."""

    config = json.loads(json.dumps(default_user_config))
    closing.callback(default_user_config.update, config)
    # Without Docker, which may not be installed: `moto_gaps.lambda_` runs the functions.
    default_user_config["lambda"] = {"use_docker": False}
    default_user_config["stepfunctions"] = {"execute_state_machine": True}
    moto_api_backend.reset()
    closing.callback(moto_api_backend.reset)
    services = given.before(DomainDispatcherApplication(_Errors().application), prices)
    application = ANSWERS.before(behind(door, _without_instances(services, elsewhere)))
    server = Server(
        "127.0.0.1", listener.getsockname()[1], application, QuietRequestHandler, fd=listener.fileno()
    )
    server.log = _log_crash  # type: ignore[method-assign]
    thread = threading.Thread(
        target=server.serve_forever, args=(_POLL_SECONDS,), name="embedded-aws", daemon=True
    )
    thread.start()

    def stop() -> None:
        server.shutdown()
        thread.join()

    closing.callback(stop)


def _without_instances(application: _Application, elsewhere: Mapping[str, str]) -> _Application:
    """Wrap an application, and refuse invocations as SageMaker does for an endpoint without an instance."""
    from moto.core.models import DEFAULT_ACCOUNT_ID

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        invoked = _INVOCATION.fullmatch(environ["PATH_INFO"])
        if invoked is None:
            return application(environ, start_response)
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        message = f"Endpoint {invoked[1]} of account {DEFAULT_ACCOUNT_ID} not found."
        if url := elsewhere.get(_RUNTIME):
            message += f" Its instances are elsewhere: set {_RUNTIME}={url}."
        return refuse(environ, start_response, "400 Bad Request", "ValidationError", message)

    return serve


class _Errors:
    """Turns what moto does not support, and its crashes, into errors of the requested service.

    moto answers them with 500, which SDKs retry, and a page in HTML, in which they find no reason.
    """

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def application(self, service: Any) -> Any:
        from flask import Flask
        from moto.moto_server.werkzeug_app import create_backend_app

        application = create_backend_app(service) if service else Flask("unsupported")
        application.register_error_handler(Exception, self._answer)
        application.after_request(self._complete)
        return application

    def _complete(self, response: Any) -> Any:
        """Replace moto's empty answer for a path that no operation of the service has."""
        from flask import request

        if response.status_code == HTTPStatus.NOT_FOUND and not response.content_length:
            return response if request.method == "HEAD" else self._answer(NotImplementedError())
        return response

    def _answer(self, error: Exception) -> Any:
        from flask import Response, request
        from werkzeug.exceptions import HTTPException

        if isinstance(error, HTTPException) and request.url_rule is not None:
            return error  # an error of the service, in moto's form
        wanted = _operation(request)
        if isinstance(error, NotImplementedError | HTTPException):
            code, message = "UnsupportedOperation", f"The embedded AWS does not support {wanted}."
            detail = "" if _NO_ACTION in str(error) or isinstance(error, HTTPException) else str(error)
        else:
            code, message = "InternalFailure", f"The embedded AWS failed in {wanted}."
            detail = f"{type(error).__name__}: {error}"
        message = f"{message} {detail}".strip()
        if message not in self._logged:
            self._logged.add(message)
            _log.error("%s", message)
        _log.debug("%s", message, exc_info=error)
        headers, body = error_answer(request.environ, code, message)
        # Not 500 or 501: SDKs would try again.
        return Response(body, status=HTTPStatus.BAD_REQUEST, headers=headers)


def _operation(request: Any) -> str:
    """Return the service and operation of a request, in the words of IAM where they are known."""
    from botocore.exceptions import UnknownServiceError
    from moto.core.routing import get_service_router
    from werkzeug.exceptions import NotFound

    signed = service_of(request.environ)
    service = _SIGNED_AS.get(signed, signed)
    name = request.values.get("Action") or request.headers.get("x-amz-target", "").rpartition(".")[2]
    if not name:
        try:
            name = get_service_router(signed).match(request)[0].name
        except (NotFound, NotImplementedError, UnknownServiceError):
            return f"{request.method} {request.path} of {service or 'a request without a service'}"
    return f"{service}:{name}"


def _log_crash(type: str, message: str, *args: Any) -> None:  # noqa: A002, ARG001 (werkzeug's name)
    logged = (message % args if args else message).strip()
    _log.error("the embedded AWS failed: %s", logged.splitlines()[-1])
    _log.debug("%s", logged)
