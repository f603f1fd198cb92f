"""Calls functions as Lambda does: each in its own process, with a time limit, synchronously or not.

Differences from Lambda:
- The interpreter is that of this process, whatever runtime the function requests. Without a container, the
  function sees this machine's files. It can import the installed packages, including boto3, but not the code
  of the project in whose environment it runs.
- Each call has a new process. Lambda keeps one for the next call.
- Memory and concurrency are not limited, and the role's policies are not checked.
- Layers are accepted and ignored, and a log in JSON is written as plain lines.
- A failed asynchronous call is not retried. Lambda retries it twice, after one minute and after two more.
  Read on 2026-11-21: https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import uuid
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

Log = Callable[[str], None]

CHAIN_LIMIT = 16
"""The calls of a function in one chain of calls between functions, before Lambda stops it.

Source: https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html, read on 2026-11-21.
"""

# Isolated, without the .pth files that put a project's own code on the path, and unbuffered.
_OPTIONS = ("-I", "-S", "-u")
_RUNTIME = Path(__file__).with_name("runtime.py")
# Time limit for the import of a function, in seconds. On AWS it is 10, but on machines without other work.
_INIT_SECONDS = 60.0
_CHUNK = 65536
_READY = b"ready\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function with everything that one call needs. Its memory is only shown, and no limit here."""

    name: str
    arn: str
    version: str
    handler: str
    code: bytes
    environment: Mapping[str, str]
    timeout: float
    memory: int
    region: str
    log_group: str
    log_stream: str
    log: Log


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a call: its answer as JSON, and True if that is an error."""

    payload: bytes
    failed: bool

    @property
    def error(self) -> str:
        """The type and message of an error; an empty string without one."""
        if not self.failed:
            return ""
        answer = json.loads(self.payload)
        return f"{answer.get('errorType', 'Error')}: {answer['errorMessage']}"


class ClosedError(Exception):
    """The embedded AWS is closing: functions cannot start anymore."""


class LoopError(Exception):
    """A function runs too often in one chain of calls."""


class _Chain:
    def __init__(self, on_end: Callable[[Outcome], None] | None) -> None:
        self.on_end = on_end
        self.running = 0
        self.calls: dict[str, int] = {}


class Functions:
    def __init__(self, environment: Callable[[], Mapping[str, str]]) -> None:
        self._environment = environment
        self._lock = threading.Lock()
        self._closed = False
        self._chains: dict[str, _Chain] = {}
        self._processes: set[subprocess.Popen[str]] = set()
        self._threads: set[threading.Thread] = set()

    def invoke(self, function: Function, event: bytes, *, trace: str = "") -> Outcome:
        trace = self._enter(function, trace, None)
        return self._run_in(trace, function, event)

    def start(
        self,
        function: Function,
        event: bytes,
        *,
        trace: str = "",
        on_end: Callable[[Outcome], None] | None = None,
    ) -> None:
        trace = self._enter(function, trace, on_end)

        def run() -> None:
            try:
                self._run_in(trace, function, event)
            finally:
                with self._lock:
                    self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=run, name=f"function-{function.name}", daemon=True)
        with self._lock:
            self._threads.add(thread)
        thread.start()

    def close(self) -> None:
        """End every running function with its child processes, and start no more."""
        with self._lock:
            self._closed = True
            processes, threads = list(self._processes), list(self._threads)
        for process in processes:
            _kill(process)
        for thread in threads:
            thread.join()

    def _enter(self, function: Function, trace: str, on_end: Callable[[Outcome], None] | None) -> str:
        """Record the start of a call. Returns its trace; a new one for a call from outside."""
        root = trace.partition(";")[0]  # which all calls of a chain share
        with self._lock:
            if self._closed:
                raise ClosedError("the embedded AWS is closing")
            if root not in self._chains:
                root = f"Root=1-{int(time.time()):08x}-{secrets.token_hex(12)}"
                self._chains[root] = _Chain(on_end)
            chain = self._chains[root]
            calls = chain.calls.get(function.name, 0)
            if calls >= CHAIN_LIMIT:
                msg = f"{function.name} was invoked {calls} times in one chain of requests: it is stopped"
                raise LoopError(msg)
            chain.calls[function.name] = calls + 1
            chain.running += 1
        return root

    def _run_in(self, root: str, function: Function, event: bytes) -> Outcome:
        outcome = _error("Runtime.Unknown", "the function could not be started")
        try:
            outcome = self._run(root, function, event)
        finally:
            self._leave(root, outcome)
        return outcome

    def _leave(self, root: str, outcome: Outcome) -> None:
        with self._lock:
            chain = self._chains[root]
            chain.running -= 1
            ended = chain.running == 0
            if ended:
                del self._chains[root]
        if ended and chain.on_end:
            chain.on_end(outcome)

    def _run(self, root: str, function: Function, event: bytes) -> Outcome:
        request_id, started = str(uuid.uuid4()), time.monotonic()
        function.log(f"START RequestId: {request_id} Version: {function.version}")
        with tempfile.TemporaryDirectory(prefix="function-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            outcome = self._unpack(function, event, folder, request_id)
            if outcome is None:
                own = _variables(function, folder, request_id=request_id, root=root)
                outcome = self._process({**self._environment(), **own}, function, folder, request_id)
        function.log(f"END RequestId: {request_id}")
        duration = (time.monotonic() - started) * 1000
        function.log(
            f"REPORT RequestId: {request_id}\tDuration: {duration:.2f} ms\tMemory Size: {function.memory} MB"
        )
        return outcome

    def _unpack(self, function: Function, event: bytes, folder: Path, request_id: str) -> Outcome | None:
        """Write code and event for the runtime. Returns an error if the code is not a zip archive."""
        (folder / "tmp").mkdir()
        (folder / "event.json").write_bytes(event)
        try:
            with zipfile.ZipFile(io.BytesIO(function.code)) as archive:
                archive.extractall(folder / "task")
        except zipfile.BadZipFile as error:
            return _error("Runtime.InvalidCode", f"RequestId: {request_id} Error: {error}")
        return None

    def _process(
        self, environment: Mapping[str, str], function: Function, folder: Path, request_id: str
    ) -> Outcome:
        """Run the interpreter until it ends, times out, or the embedded AWS closes."""
        channel, theirs = os.pipe()
        packages = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
        try:
            with self._lock:
                if self._closed:
                    closed = f"RequestId: {request_id} Error: the embedded AWS was closed"
                    return _error("Sandbox.Closed", closed)
                process = subprocess.Popen(
                    [sys.executable, *_OPTIONS, _RUNTIME, folder, str(theirs), *dict.fromkeys(packages)],
                    env=environment,
                    cwd=folder / "task",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    pass_fds=(theirs,),
                    start_new_session=True,
                )
                self._processes.add(process)
        finally:
            os.close(theirs)
        watch = _Watch(process, channel, timeout=function.timeout)
        try:
            for line in process.stdout or ():
                function.log(line.rstrip("\n"))
            return watch.outcome(request_id, function.log)
        finally:
            with self._lock:
                self._processes.discard(process)
            _kill(process)
            if process.stdout:
                process.stdout.close()


class _Watch:
    """Reads the outcome from a process, and ends it when it times out."""

    def __init__(self, process: subprocess.Popen[str], channel: int, *, timeout: float) -> None:
        self._process = process
        self._channel = channel
        self._timeout = timeout
        self._answer = b""
        self._late = False
        self._thread = threading.Thread(target=self._listen, name="function-watch", daemon=True)
        self._thread.start()

    def outcome(self, request_id: str, log: Log) -> Outcome:
        """Return the outcome; if the process sent none, derive it from the exit status."""
        self._thread.join()
        self._process.wait()
        if self._answer:
            answer = json.loads(self._answer)
            return Outcome(payload=answer["payload"].encode(), failed=answer["failed"])
        if self._late:
            kind, what = "Sandbox.Timedout", f"Task timed out after {self._timeout:.2f} seconds"
        else:
            status = self._process.returncode
            how = f"signal: {-status}" if status < 0 else f"exit status {status}"
            kind, what = "Runtime.ExitError", f"Runtime exited with error: {how}"
        message = f"RequestId: {request_id} Error: {what}"
        log(message)
        return _error(kind, message)

    def _listen(self) -> None:
        try:
            if self._read(_INIT_SECONDS, until=_READY):
                self._answer = self._answer.removeprefix(_READY)
                self._read(self._timeout)
        finally:
            os.close(self._channel)

    def _read(self, seconds: float, *, until: bytes = b"") -> bool:
        """Read until the given bytes. Returns False at the end of the stream or when the time is up."""
        end = time.monotonic() + seconds
        while not (until and self._answer.startswith(until)):
            readable, _, _ = select.select([self._channel], [], [], max(0.0, end - time.monotonic()))
            if not readable:
                self._late, self._answer = True, b""
                _kill(self._process)
                return False
            chunk = os.read(self._channel, _CHUNK)
            if not chunk:
                return False
            self._answer += chunk
        return True


def _variables(function: Function, folder: Path, *, request_id: str, root: str) -> dict[str, str]:
    """Return the variables of one call. The function's own override all except the runtime's.

    Names: https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html, read on 2026-11-21.
    """
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "en_US.UTF-8",
        "PYTHONIOENCODING": "utf-8",
        "TZ": ":UTC",
        "HOME": str(folder / "tmp"),
        "TMPDIR": str(folder / "tmp"),
        **function.environment,
        "AWS_REGION": function.region,
        "AWS_DEFAULT_REGION": function.region,
        "AWS_EXECUTION_ENV": f"AWS_Lambda_python{sys.version_info.major}.{sys.version_info.minor}",
        "AWS_LAMBDA_FUNCTION_NAME": function.name,
        "AWS_LAMBDA_FUNCTION_VERSION": function.version,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory),
        "AWS_LAMBDA_LOG_GROUP_NAME": function.log_group,
        "AWS_LAMBDA_LOG_STREAM_NAME": function.log_stream,
        "LAMBDA_TASK_ROOT": str(folder / "task"),
        "_HANDLER": function.handler,
        # The SDK adds it to the function's own calls, which identifies a chain of calls.
        "_X_AMZN_TRACE_ID": root,
        "_EMBEDDED_REQUEST_ID": request_id,
        "_EMBEDDED_FUNCTION_ARN": function.arn,
        "_EMBEDDED_TIMEOUT": str(function.timeout),
    }


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it may have ended, or be ending
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _error(kind: str, message: str) -> Outcome:
    return Outcome(payload=json.dumps({"errorType": kind, "errorMessage": message}).encode(), failed=True)
