"""A shell that runs commands one after the other, like the shell of a build container, and its processes.

CodeBuild's buildspec version 0.2 runs every command of a build in the same shell: exported variables and the
working directory carry over to the next command.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from triton_models.base.processes import descendants, end_group, tie_to_parent
from triton_rehearsal.closing import Closing

# Reads the path of a command, sources it so that its effects stay in this shell, and answers with its status.
# A standard shell only supports descriptors of one digit, so a bash opens the descriptors first. `command`
# prevents a syntax error in a command from ending the shell.
_DRIVER = 'while IFS= read -r file <&3; do command . "$file" </dev/null; printf "%s\\n" "$?" >&4; done'
_START = 'exec 3<&{commands} 4>&{statuses} {commands}<&- {statuses}>&-; exec "$0" -c "$1"'

_FIRST_FREE = 10
_INTERRUPTED = 128 + signal.SIGTERM
_PR_SET_CHILD_SUBREAPER = 36
_GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.02
_libc = ctypes.CDLL(None, use_errno=True)


class CommandShell(Closing):
    """A shell that receives commands: bash, or the machine's sh. It inherits no environment.

    `on_line` is called with every line that a command prints, including standard error.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        directory: Path,
        on_line: Callable[[str], None],
        program: str = "bash",
    ) -> None:
        self._scripts = tempfile.TemporaryDirectory(prefix="fleet-shell-")
        self._count = 0
        self._interrupted = threading.Event()
        commands_in, commands_out = _pipe()
        statuses_in, statuses_out = _pipe()
        self._commands = os.fdopen(commands_out, "w", buffering=1)
        self._statuses = os.fdopen(statuses_in)
        self._process = start_contained(
            ["bash", "-c", _START.format(commands=commands_in, statuses=statuses_out), program, _DRIVER],
            environment=environment,
            directory=directory,
            pass_fds=(commands_in, statuses_out),
        )
        os.close(commands_in)
        os.close(statuses_out)
        self._reader = threading.Thread(target=self._read, args=(on_line,), daemon=True)
        self._reader.start()

    def _read(self, on_line: Callable[[str], None]) -> None:
        assert self._process.stdout is not None  # noqa: S101  given by PIPE
        for line in self._process.stdout:
            on_line(line.rstrip("\n"))

    def run(self, command: str) -> int:
        """Run one command, which may span lines, and return its exit status.

        If a command ends the shell itself (`exit 3`), this is the status of it and of every later command.
        """
        if self._interrupted.is_set():
            return _INTERRUPTED
        self._count += 1
        script = Path(self._scripts.name) / f"{self._count}.sh"
        script.write_text(command + "\n")
        try:
            self._commands.write(f"{script}\n")
        except BrokenPipeError:
            return self._ended()
        answer = self._statuses.readline()
        status = int(answer) if answer else self._ended()
        return _INTERRUPTED if self._interrupted.is_set() else status

    def _ended(self) -> int:
        """Return the status of a shell that a command ended. Never 0, because later commands do not run."""
        return self._process.wait() or 1

    def interrupt(self) -> None:
        """End the shell from another thread. The running command and every later one fail."""
        self._interrupted.set()
        end_contained(self._process)

    def close(self) -> None:
        """End the shell and every process that its commands left behind."""
        end_contained(self._process)
        for stream in (self._commands, self._statuses):
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._scripts.cleanup()


def _pipe() -> tuple[int, int]:
    """Return a pipe with descriptors that the shell does not use itself."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE) for end in ends]
    for each in ends:
        os.close(each)
    return moved[0], moved[1]


def start_contained(
    command: Sequence[str], *, environment: Mapping[str, str], directory: Path, pass_fds: Sequence[int] = ()
) -> subprocess.Popen[str]:
    """Start a process that acts as a container: `end_contained` ends everything that it starts.

    Its standard error is part of its output.
    """
    return subprocess.Popen(
        command,
        env=environment,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=pass_fds,
        start_new_session=True,
        preexec_fn=_contain,  # noqa: PLW1509  two prctl calls
    )


def _contain() -> None:
    """Tie this process to its parent and let it adopt orphans, which are then found in any session."""
    tie_to_parent()
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_contained(process: subprocess.Popen[str]) -> None:
    """End everything that a contained process has started, in any session, then the process itself."""
    _end_descendants(process.pid)
    end_group(process)


def _end_descendants(pid: int) -> None:
    """Ask the descendants to end, wait, then kill them. Returns when none runs."""
    deadline = time.monotonic() + _GRACE_SECONDS
    asked: set[int] = set()
    while running := descendants(pid):
        late = time.monotonic() > deadline
        for each in running:
            if late or each not in asked:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(each, signal.SIGKILL if late else signal.SIGTERM)
                asked.add(each)
        time.sleep(_POLL_SECONDS)
