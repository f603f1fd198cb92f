"""Runs one call of a function: the program of a process that does nothing else.

It is started by its path and imports only the standard library. It follows the source of Lambda's Python
runtime, including the names of errors. Read on 2026-11-21:
https://github.com/aws/aws-lambda-python-runtime-interface-client/blob/main/awslambdaric/bootstrap.py
"""

from __future__ import annotations

import ctypes
import importlib
import json
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

_TASK_ROOT = "/var/task"
_READY = b"ready\n"
_PR_SET_PDEATHSIG = 1


class LambdaContext:
    def __init__(self, deadline: float) -> None:
        environment = os.environ
        self.aws_request_id = environment["_EMBEDDED_REQUEST_ID"]
        self.function_name = environment["AWS_LAMBDA_FUNCTION_NAME"]
        self.function_version = environment["AWS_LAMBDA_FUNCTION_VERSION"]
        self.invoked_function_arn = environment["_EMBEDDED_FUNCTION_ARN"]
        self.memory_limit_in_mb = environment["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
        self.log_group_name = environment["AWS_LAMBDA_LOG_GROUP_NAME"]
        self.log_stream_name = environment["AWS_LAMBDA_LOG_STREAM_NAME"]
        self.client_context = None
        self.identity = None
        self._deadline = deadline

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self._deadline - time.monotonic()) * 1000))


class _LogHandler(logging.Handler):
    def __init__(self, request_id: str) -> None:
        super().__init__()
        self.setFormatter(
            logging.Formatter(
                f"[%(levelname)s]\t%(asctime)s.%(msecs)03dZ\t{request_id}\t%(message)s", "%Y-%m-%dT%H:%M:%S"
            )
        )

    def emit(self, record: logging.LogRecord) -> None:
        sys.stdout.write(f"{self.format(record)}\n")


class RuntimeRefusalError(Exception):
    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def call(folder: Path, *, ready: Callable[[], None]) -> dict[str, Any]:
    try:
        handler = _handler(os.environ["_HANDLER"])
        event = json.loads((folder / "event.json").read_bytes())
        ready()
        deadline = time.monotonic() + float(os.environ["_EMBEDDED_TIMEOUT"])
        answer = handler(event, LambdaContext(deadline))
        return {"failed": False, "payload": _marshalled(answer)}
    except RuntimeRefusalError as failure:
        return _failed(failure.kind, str(failure), [], folder)
    except Exception as error:  # noqa: BLE001 (any exception of a function is its answer)
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if frame.filename != __file__]
        return _failed(type(error).__name__, str(error), traceback.format_list(ours), folder)


def _handler(name: str) -> Callable[[Any, Any], Any]:
    module_name, _, function_name = name.rpartition(".")
    if not module_name:
        msg = f"Bad handler '{name}': not enough values to unpack (expected 2, got 1)"
        raise RuntimeRefusalError("Runtime.MalformedHandlerName", msg)
    try:
        module = importlib.import_module(module_name.replace("/", "."))
    except ImportError as error:
        msg = f"Unable to import module '{module_name}': {error}"
        raise RuntimeRefusalError("Runtime.ImportModuleError", msg) from error
    except SyntaxError as error:
        msg = f"Syntax error in module '{module_name}': {error}"
        raise RuntimeRefusalError("Runtime.UserCodeSyntaxError", msg) from error
    if not hasattr(module, function_name):
        msg = f"Handler '{function_name}' missing on module '{module_name}'"
        raise RuntimeRefusalError("Runtime.HandlerNotFound", msg)
    found: Callable[[Any, Any], Any] = getattr(module, function_name)
    return found


def _marshalled(answer: Any) -> str:
    try:
        return json.dumps(answer)
    except (TypeError, ValueError) as error:
        msg = f"Unable to marshal response: {error}"
        raise RuntimeRefusalError("Runtime.MarshalError", msg) from error


def _failed(kind: str, message: str, trace: list[str], folder: Path) -> dict[str, Any]:
    shown = [line.replace(str(folder / "task"), _TASK_ROOT) for line in trace]
    request_id = os.environ["_EMBEDDED_REQUEST_ID"]
    lines = ["Traceback (most recent call last):", *(line.rstrip("\n") for line in shown)] if shown else []
    sys.stdout.writelines(f"{line}\n" for line in (f"[ERROR] {kind}: {message}", *lines))
    answer = {"errorMessage": message, "errorType": kind, "requestId": request_id, "stackTrace": shown}
    return {"failed": True, "payload": json.dumps(answer)}


def main(folder: Path, channel: int, packages: list[str]) -> None:
    _tie_to_parent()
    sys.path[:0] = [str(folder / "task")]
    sys.path += packages
    logging.getLogger().addHandler(_LogHandler(os.environ["_EMBEDDED_REQUEST_ID"]))
    outcome = call(folder, ready=lambda: _write(channel, _READY))
    sys.stdout.flush()
    sys.stderr.flush()
    _write(channel, json.dumps(outcome).encode())
    # A thread that a function leaves behind does not delay the end of its call: Lambda freezes it.
    os._exit(0)


def _tie_to_parent() -> None:
    """Let the kernel end this process when its parent dies. Only Linux can do so."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _write(channel: int, message: bytes) -> None:
    while message:
        message = message[os.write(channel, message) :]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
