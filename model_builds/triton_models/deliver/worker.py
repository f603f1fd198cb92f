"""A separate process for code that may hang or crash; it runs one task after the other.

Building a model runs the model's own code and entire frameworks. They may hang, end the process, or be killed
by the kernel when memory runs out. In a separate process, any of these fails only one model. The process is
kept for the next task, so frameworks are imported once and not for each of thousands of models. What builds a
model runs in copies of it: see `triton_models.deliver.inside.apart`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from triton_models.base.errors import Problem
from triton_models.base.processes import end_group, tie_to_parent

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Argument = TypeVar("Argument")
Answer = TypeVar("Answer")
Report: TypeAlias = Callable[[str], None]
"""A callback that a task calls with the name of each step it starts."""

LOOK_S = 0.5
"""Seconds between checks that a process is alive; a child of it may hold the pipe open."""
_CLOSE_S = 10.0

# A process is replaced when its temporary folder, which keeps downloaded weights, exceeds this size.
_MOST_TEMPORARY_BYTES = 10 << 30

# sys.path of the parent replaces the one that -c starts with, before any import from a file.
_PROGRAM = (
    "import sys; descriptor, *sys.path = sys.argv[1:]; "
    "from triton_models.deliver.inside import main; main(int(descriptor))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Generic[Answer]):
    """The outcome of a task.

    Attributes:
        answer: The return value of the task; None if it failed.
        problems: The reasons why it failed; empty if it succeeded.
        step: The last step it reported; "" if there was none.
    """

    answer: Answer | None = None
    problems: tuple[Problem, ...] = ()
    step: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The message of the process at the end of a task.

    Attributes:
        answer: The return value of the task; None if it failed.
        sound: True if the process can run another task.
    """

    answer: Any = None
    problems: tuple[Problem, ...] = ()
    sound: bool = True


class Worker:
    """The parent's handle of the process, which starts with the first task. Use it from one thread only."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._temporary: Path | None = None

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

        Args:
            task: A module-level function, which the process imports by name.
            argument: Its argument; pickled, as is the return value.
            name: The subject of the task, for errors.
            seconds: The time limit. When it expires, the process is killed with all its children.
            log: The file for the task's output; None for standard error.
            on_step: Called with each step that the task reports.
        """
        begun = time.monotonic()
        connection = self._started()
        last = ""

        def step(reported: str) -> None:
            nonlocal last
            last = reported
            on_step(reported)

        with contextlib.suppress(OSError):  # it has just died, which is handled below
            connection.send((task, argument, log))
        reply = self._awaited(begun + seconds, seconds, name, step)
        if not reply.sound:
            self.kill()
        elif self._is_used_up():
            self.close()
        took = time.monotonic() - begun
        return Ended(answer=reply.answer, problems=reply.problems, step=last, seconds=took)

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

    def _awaited(self, until: float, seconds: float, name: str, step: Report) -> Reply:
        """Wait for the reply of the task; return the problem if there is no reply."""
        while True:
            left = until - time.monotonic()
            if left <= 0:
                return Reply(problems=(_too_long(name, seconds),), sound=False)
            message = self._message(min(left, LOOK_S))
            if isinstance(message, str):
                step(message)
            elif message is not None:
                reply: Reply = message
                return reply
            elif self._process is not None and self._process.poll() is not None:
                return Reply(problems=(died(name, self._process.returncode),), sound=False)

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

    def _is_used_up(self) -> bool:
        return self._temporary is None or _size(self._temporary) > _MOST_TEMPORARY_BYTES


def _size(folder: Path) -> int:
    """Return the bytes in a folder whose files may disappear meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.lstat().st_size
    return total


def _too_long(name: str, seconds: float) -> Problem:
    return Problem(
        what=f"it was killed after the time limit of {seconds:g} seconds",
        where=f"model {name!r}",
        why="a build that hangs would block all later ones",
        fix="find its last step in the log; raise --model-timeout if it needs more time",
        rule="timed-out",
    )


def died(name: str, status: int) -> Problem:
    """Return the problem of a process that ended with an exit code, or of a signal if it is negative."""
    how = f"with the exit code {status}" if status >= 0 else f"of signal {_signal_name(-status)}"
    memory = " (often the kernel, when memory is full)" if status == -signal.SIGKILL else ""
    return Problem(
        what=f"its process ended unexpectedly {how}{memory}",
        where=f"model {name!r}",
        why="its output is incomplete",
        fix="check the end of its log: a library crashed, memory ran out, or its code ended the process",
        rule="crashed",
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
