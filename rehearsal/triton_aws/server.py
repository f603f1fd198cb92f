"""The server of the embedded AWS: moto's server behind the door, plus the answers of custom resources."""

from __future__ import annotations

import io
import json
import logging
import socket
import threading
from contextlib import ExitStack
from typing import Any

from triton_aws.door import IDLE_LIMIT_S, BoundedThreads, Door, behind
from triton_aws.errors import PortError
from triton_aws.price_list import Prices

_log = logging.getLogger(__name__)

# The interval, in seconds, at which the server checks if it must stop: the longest time that closing takes.
_POLL_SECONDS = 0.05
_PIECE = 1 << 20


def listen(port: int) -> socket.socket:
    """Bind a port of the loopback interface.

    Raises:
        PortError: The port is taken or not allowed.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        msg = f"port {port} cannot be used: {getattr(error, 'strerror', None) or error}"
        raise PortError(msg) from error
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


def serve(listener: socket.socket, door: Door, prices: Prices, closing: ExitStack) -> None:
    """Answer on the listener from threads of this process until `closing` closes."""
    # moto takes a second or two to import.
    from triton_aws.moto_gaps import close_gaps

    # This comes first: it imports moto without the caller's AWS profile.
    close_gaps()
    from moto.core.config import default_user_config
    from moto.moto_api._internal.models import moto_api_backend
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import ThreadedWSGIServer

    from triton_aws import price_list
    from triton_aws.cloudformation import stacks
    from triton_aws.cloudformation.answers import ANSWERS

    class QuietRequestHandler(MotoRequestHandler):
        """Keeps each request off the terminal, and ends idle connections."""

        timeout = IDLE_LIMIT_S

        def setup(self) -> None:
            super().setup()
            self.wfile = _Pieces(self.connection)

        def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002, ARG002 (werkzeug's name)
            _log.debug(message, *args)

    class Server(BoundedThreads, ThreadedWSGIServer):
        """Limits the number of connections."""

    stacks.install()
    config = json.loads(json.dumps(default_user_config))
    closing.callback(default_user_config.update, config)
    # Without Docker, which may not be installed: `moto_gaps.lambda_` runs the functions.
    default_user_config["lambda"] = {"use_docker": False}
    default_user_config["stepfunctions"] = {"execute_state_machine": True}
    moto_api_backend.reset()
    closing.callback(moto_api_backend.reset)
    inside = behind(door, price_list.before(DomainDispatcherApplication(create_backend_app), prices))
    application = ANSWERS.before(inside)
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


def _log_crash(type: str, message: str, *args: Any) -> None:  # noqa: A002, ARG001 (werkzeug's name)
    """Log the crash of a service; the traceback goes to the debug level."""
    logged = (message % args if args else message).strip()
    _log.error("the embedded AWS failed: %s", logged.splitlines()[-1])
    _log.debug("%s", logged)
