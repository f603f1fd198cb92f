"""A process of its own for what may hang or die: it does one task after the other, and is replaced.

The making of a model runs the model's own code and whole frameworks. That may never come back, may end the
process, or may be ended by the kernel for want of memory. In a process of its own, all of these are a
reason for one model. The process stays for the next task, so that frameworks are imported once and not
once for each of thousands of models.
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
"""Called by a task with the name of what it begins now."""

# How often it is looked whether the process is still there: a child of its may hold the pipe open.
_LOOK_S = 0.5
_CLOSE_S = 10.0

# A process is replaced when its folder for temporary files has grown so large: downloaded weights stay there
# until it ends.
_MOST_TEMPORARY_BYTES = 10 << 30

# The path of this process replaces the one that -c begins with, before anything is imported from a file.
_PROGRAM = (
    "import sys; descriptor, *sys.path = sys.argv[1:]; "
    "from triton_models.deliver.inside import main; main(int(descriptor))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Generic[Answer]):
    """How a task ended.

    Attributes:
        answer: What the task returned; None if it failed.
        problems: Why it failed; empty if it did not.
        step: What it reported last; "" if nothing.
        seconds: How long it took.
    """

    answer: Answer | None = None
    problems: tuple[Problem, ...] = ()
    step: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the process says at the end of a task.

    Attributes:
        answer: What the task returned; None if it failed.
        problems: Why it failed.
        sound: Whether the process can be given another task.
    """

    answer: Any = None
    problems: tuple[Problem, ...] = ()
    sound: bool = True


class Worker:
    """The process. It is started with the first task; use it from one thread, which lives as long.

    Args:
        most_tasks: After how many tasks it is replaced, for what frameworks never give back; None for never.
    """

    def __init__(self, *, most_tasks: int | None = None) -> None:
        self._most_tasks = most_tasks
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._temporary: Path | None = None
        self._tasks = 0

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
        told: Report = lambda step: None,
    ) -> Ended[Answer]:
        """Do a task there, and say how it ended.

        Args:
            task: A function of a module, which the process imports by its name.
            argument: What it is given; pickled, as the answer is.
            name: What the task is about, for errors.
            seconds: How long it may take. After that the process is killed, with all that it has started.
            log: A file that gets what the task prints; what it prints goes to standard error without one.
            told: Called with each step that the task reports.
        """
        begun = time.monotonic()
        connection = self._started()
        last = ""

        def step(reported: str) -> None:
            nonlocal last
            last = reported
            told(reported)

        with contextlib.suppress(OSError):  # it has just died: that is seen below
            connection.send((task, argument, log))
        reply = self._awaited(begun + seconds, seconds, name, step)
        self._tasks += 1
        if not reply.sound:
            self.kill()
        elif self._is_used_up():
            self.close()
        took = time.monotonic() - begun
        return Ended(answer=reply.answer, problems=reply.problems, step=last, seconds=took)

    def close(self) -> None:
        """Let the process end what it has running, and end it; the next task gets a new one."""
        if self._connection is not None:
            self._connection.close()  # it looks for the next task there
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=_CLOSE_S)
        self.kill()

    def kill(self) -> None:
        """End the process and all that it has started, whatever it does; the next task gets a new one."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            end_group(self._process)
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
        self._process = self._connection = self._temporary = None
        self._tasks = 0

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
                env={**os.environ, "TMPDIR": str(self._temporary)},
            )
        self._connection = ours
        return ours

    def _awaited(self, until: float, seconds: float, name: str, step: Report) -> Reply:
        """The answer of the task, or why there is none."""
        while True:
            left = until - time.monotonic()
            if left <= 0:
                return Reply(problems=(_too_long(name, seconds),), sound=False)
            message = self._message(min(left, _LOOK_S))
            if isinstance(message, str):
                step(message)
            elif message is not None:
                reply: Reply = message
                return reply
            elif self._process is not None and self._process.poll() is not None:
                return Reply(problems=(_died(name, self._process.returncode),), sound=False)

    def _message(self, wait_s: float) -> Any:
        """What the process says next; None if it says nothing for a while, or never again."""
        if self._connection is None or self._process is None:
            return None
        try:
            return self._connection.recv() if self._connection.poll(wait_s) else None
        except (EOFError, OSError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=wait_s)
            return None

    def _is_used_up(self) -> bool:
        if self._temporary is None or self._tasks == self._most_tasks:
            return True
        return _size(self._temporary) > _MOST_TEMPORARY_BYTES


def _size(folder: Path) -> int:
    """The bytes in a folder, from which files may go meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.lstat().st_size
    return total


def _too_long(name: str, seconds: float) -> Problem:
    return Problem(
        what=f"it was not done after {seconds:g} seconds, and was killed",
        where=f"model {name!r}",
        expected="an end within the time that a model is given",
        why="a build that hangs would keep all later ones from being made",
        fix="read in its log what it was at; give it longer with --model-timeout if it needs that",
        rule="timed-out",
    )


def _died(name: str, status: int) -> Problem:
    how = f"with the exit code {status}" if status >= 0 else f"of signal {_signal_name(-status)}"
    memory = ": often the kernel, when the machine's memory is full" if status == -signal.SIGKILL else ""
    return Problem(
        what=f"its process ended {how} in the middle of the work{memory}",
        where=f"model {name!r}",
        expected="code that returns, or raises what is wrong",
        why="nothing it had made is whole",
        fix="read the end of its log: a library crashed, memory ran out, or its code ended the process",
        rule="crashed",
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
