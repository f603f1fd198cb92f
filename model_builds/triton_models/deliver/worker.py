"""A separate process for code that may hang or crash; it runs one task after the other.

Building a model runs the model's own code and entire frameworks. They may hang, end the process, or be killed
by the kernel when memory runs out. In a separate process, any of these fails only one model. The process is
kept for the next task, so frameworks are imported once and not for each of thousands of models. What builds a
model runs in copies of it: see `apart`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar, cast

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError, Problem
from triton_models.base.processes import end_group, tie_to_parent

TIMED_OUT = Check(id="timed-out", source=FROM_ARGUMENTS)
CRASHED = Check(id="crashed", source=FROM_ARGUMENTS)
UNEXPECTED = Check(id="unexpected", source=FROM_ARGUMENTS)

Argument = TypeVar("Argument")
Answer = TypeVar("Answer")
Report: TypeAlias = Callable[[str], None]
"""A callback that a task calls with the name of each step it starts."""

# Seconds between checks that a process is alive; a child of it may hold the pipe open.
_LOOK_S = 0.5
_CLOSE_S = 10.0

# A process is replaced when its temporary folder, which keeps downloaded weights, exceeds this size.
_MOST_TEMPORARY_BYTES = 10 << 30

# sys.path of the parent replaces the one that -c starts with, before any import from a file.
_PROGRAM = (
    "import sys; descriptor, *sys.path = sys.argv[1:]; "
    "from triton_models.deliver.worker import main; main(int(descriptor))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Generic[Answer]):
    """The outcome of a task.

    Attributes:
        answer: The return value of the task; None if it failed.
        problems: The reasons why it failed; empty if it succeeded.
        sound: True if the process can run another task.
    """

    answer: Answer | None = None
    problems: tuple[Problem, ...] = ()
    seconds: float = 0.0
    sound: bool = True


class Worker:
    """The parent's handle of the process, which starts with the first task.

    Use it from one thread only, but for `interrupt`.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._temporary: Path | None = None
        self._interrupted = False

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.kill()

    def do(
        self,
        task: Callable[[Argument, Report], Answer],
        argument: Argument,
        *,
        name: str,
        seconds: float,
        log: Path | None = None,
        on_step: Report = lambda step: None,
    ) -> Ended[Answer]:
        """Run a task in the process, and return its outcome.

        The task is a module-level function, which the process imports by name. Its argument and its answer
        are pickled. When the time is over, the process is killed with all its children.
        """
        begun = time.monotonic()
        connection = self._started()
        with contextlib.suppress(OSError):  # it has just died, which is handled below
            connection.send((task, argument, log))
        reply = self._awaited(begun + seconds, seconds, name, on_step)
        if not reply.sound:
            self.kill()
        elif self._temporary is None or _size(self._temporary) > _MOST_TEMPORARY_BYTES:
            self.close()
        return replace(reply, seconds=time.monotonic() - begun)

    def interrupt(self) -> None:
        """Let `do` raise KeyboardInterrupt in its thread, now and from now on."""
        self._interrupted = True

    def close(self) -> None:
        """End the process after its cleanup; the next task starts a new one."""
        if self._connection is not None:
            self._connection.close()  # it waits there for the next task
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=_CLOSE_S)
        self.kill()

    def kill(self) -> None:
        """Kill the process and all its children; the next task starts a new one."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            end_group(self._process)
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
        self._process = self._connection = self._temporary = None

    def _started(self) -> Connection:
        if self._connection is not None:
            return self._connection
        ours, theirs = Pipe()
        self._temporary = Path(tempfile.mkdtemp(prefix="fleet-worker-"))
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), *sys.path],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                preexec_fn=tie_to_parent,  # noqa: PLW1509  a lone prctl call
                # Asking PyTorch for a GPU must not open it: a copy of the process could not use it then.
                env={**os.environ, "TMPDIR": str(self._temporary), "PYTORCH_NVML_BASED_CUDA_CHECK": "1"},
            )
        self._connection = ours
        return ours

    def _awaited(self, until: float, seconds: float, name: str, on_step: Report) -> Ended[Any]:
        """Wait for the reply of the task; return the problem if there is no reply."""
        while True:
            if self._interrupted:
                raise KeyboardInterrupt
            left = until - time.monotonic()
            if left <= 0:
                return Ended(problems=(_too_long(name, seconds),), sound=False)
            message = self._message(min(left, _LOOK_S))
            if isinstance(message, str):
                on_step(message)
            elif isinstance(message, Ended):
                return message
            elif self._process is not None and self._process.poll() is not None:
                return Ended(problems=(_died(name, self._process.returncode),), sound=False)

    def _message(self, wait_s: float) -> Any:
        """Return the next message of the process; None after a pause or at its end."""
        if self._connection is None or self._process is None:
            return None
        try:
            return self._connection.recv() if self._connection.poll(wait_s) else None
        except (EOFError, OSError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=wait_s)
            return None


def _size(folder: Path) -> int:
    """Return the bytes in a folder whose files may disappear meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.lstat().st_size
    return total


def _too_long(name: str, seconds: float) -> Problem:
    return TIMED_OUT.problem(
        what=f"it was killed after the time limit of {seconds:g} seconds",
        where=f"model {name!r}",
        why="a build that hangs would block all later ones",
        fix="find its last step in the log; raise --model-timeout if it needs more time",
    )


def _died(name: str, status: int) -> Problem:
    """Return the problem of a process that ended with an exit code, or of a signal if it is negative."""
    how = f"with the exit code {status}"
    if status < 0:
        known = {each.value: each.name for each in signal.Signals}
        how = f"of signal {known.get(-status, -status)}"
    if status == -signal.SIGKILL:
        how += " (often the kernel, when memory is full)"
    return CRASHED.problem(
        what=f"its process ended unexpectedly {how}",
        where=f"model {name!r}",
        why="its output is incomplete",
        fix="check the end of its log: a library crashed, memory ran out, or its code ended the process",
    )


_OUT, _ERROR = 1, 2


def main(descriptor: int) -> None:
    """Run the tasks that arrive over a connection."""
    os.set_inheritable(descriptor, False)  # noqa: FBT003  positional only
    os.dup2(_ERROR, _OUT)  # standard output belongs to the result of the command
    signal.signal(signal.SIGTERM, _stop)
    faulthandler.enable()  # on a crash, log the line of Python that led to it
    connection = Connection(descriptor)
    folder, variables = Path.cwd(), dict(os.environ)
    while True:
        try:
            task, argument, log = connection.recv()
        except (EOFError, OSError):
            return
        with _speaking_into(log):
            done = _done(task, argument, connection)
        try:
            connection.send(done)
        except OSError:  # the parent has stopped waiting
            return
        # One model's code must not affect the next one's.
        os.chdir(folder)
        if dict(os.environ) != variables:
            os.environ.clear()
            os.environ.update(variables)


def _done(task: Any, argument: Any, connection: Connection) -> Ended[Any]:
    def report(step: str) -> None:
        sys.stderr.write(f"{step} ...\n")  # the last line of a log shows the step that failed
        sys.stderr.flush()
        connection.send(step)

    return reply(lambda: task(argument, report))


def reply(task: Callable[[], Answer]) -> Ended[Answer]:
    """Call a function, and return its answer or its problems, whose traceback is printed."""
    try:
        return Ended(answer=task())
    except _ApartError as error:
        return Ended(problems=error.problems)
    except FleetError as error:
        traceback.print_exc()
        return Ended(problems=error.problems, sound=not _ran_out_of_memory(error))
    except BaseException as error:  # noqa: BLE001  any error ends only this task
        traceback.print_exc()
        return Ended(problems=(_unexpected(error),), sound=False)


class _ApartError(FleetError):
    """The problems of a function that ran apart, whose traceback is in the log."""


def apart(function: Callable[[], Answer], *, name: str) -> Answer:
    """Call a function in a copy of this process, and return its answer. Its other effects end with the copy.

    The copy is a fork, so it has the frameworks that this process imported. A process that has only imported
    PyTorch may be forked; once it has computed, or used a GPU, a copy would lack its threads and fail.
    https://docs.pytorch.org/docs/stable/notes/multiprocessing.html, read 2026-11-25.
    """
    receiving, sending = Pipe(duplex=False)
    child = os.fork()
    if not child:
        status = 1
        try:
            tie_to_parent()
            sending.send(reply(function))
            status = 0
        except BaseException:  # noqa: BLE001  an answer that cannot be pickled
            traceback.print_exc()
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:  # whatever a model's code has put in their place
                os._exit(status)
    sending.close()
    with receiving:
        got = _reply_of(child, receiving)
    if isinstance(got, int):
        raise FleetError([_died(name, got)])
    if got.problems:
        raise _ApartError(got.problems)
    return cast("Answer", got.answer)


def _reply_of(child: int, receiving: Connection) -> Ended[Any] | int:
    """Wait for the reply of a copy, or for its exit status. A child of it may hold the pipe open."""
    ended, status, reply = 0, 0, None
    while reply is None and not ended:
        ready = receiving.poll(_LOOK_S)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ready or receiving.poll(0):
            try:
                reply = receiving.recv()
            except (EOFError, OSError):
                break
    if not ended:
        _, status = os.waitpid(child, 0)
    return reply if isinstance(reply, Ended) else os.waitstatus_to_exitcode(status)


def _ran_out_of_memory(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _stop(*_: object) -> None:
    """End the task and the process, and with it everything it started."""
    sys.exit("stopped")


@contextlib.contextmanager
def _speaking_into(log: Path | None) -> Iterator[None]:
    """Redirect the output of this process and its children to a file."""
    if log is None:
        yield
        return
    kept = os.dup(_ERROR)
    with log.open("ab") as file:
        _redirect(file.fileno())
    try:
        yield
    finally:
        _redirect(kept)
        os.close(kept)


def _redirect(descriptor: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a model's code may have replaced it
            stream.flush()
    os.dup2(descriptor, _OUT)
    os.dup2(descriptor, _ERROR)


def _unexpected(error: BaseException) -> Problem:
    said = str(error).partition("\n")[0]
    frames = traceback.extract_tb(error.__traceback__)
    return UNEXPECTED.problem(
        what=f"{type(error).__name__}: {said}" if said else type(error).__name__,
        where=f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "the worker process",
        why="the model could not be built",
        fix="read the full traceback in its log",
    )
