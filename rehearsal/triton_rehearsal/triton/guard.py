"""A small process between us and a server: nothing of the server outlives us, however either process ends.

Its standard input begins with one line: a JSON object of `Charge`'s fields. It starts the command in its own
process group and prints the server's process id, or the reason why it cannot keep the server off the network.
When standard input closes, which the kernel ensures even if the parent is killed, it kills the group and
removes the files that the server leaves behind. If the server ends first, it cleans up, closes standard
output as a signal, and waits for the parent.

Only the standard library, so that it starts in milliseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from triton_rehearsal.triton.seclusion import answer_calls, ask_about_own_calls

_RUN = "import sys; sys.path.insert(0, {root!r}); from triton_rehearsal.triton.guard import main; main()"

# <linux/prctl.h>
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_LONGEST_REASON = 4096


@dataclass(frozen=True)
class Charge:
    """The server and files of a guard. Not slotted or keyword-only: it is passed to a process as JSON."""

    command: list[str]
    environment: dict[str, str]
    directory: str  # the server's folder, removed when the parent is gone
    log: str  # the file for the server's output; "" for the guard's own standard error
    leftovers: list[str]  # glob patterns of the server's files elsewhere, removed as soon as it has ended
    start: str = ""  # the working directory of the server; "" for `directory`
    # A folder that only its user can open. Each port on which the server listens becomes a Unix socket there,
    # named after the port. If "", the ports are on the loopback interface.
    sockets: str = ""


def start(charge: Charge) -> subprocess.Popen[bytes]:
    """Start a guard. Its standard output closes when the server ends.

    The first line of the output is for `started`. The second is the server's exit status, or the negative
    number of the signal that ended it.
    """
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _RUN.format(root=str(Path(__file__).parents[2]))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None  # noqa: S101  given by PIPE
    # Not an argument: the environment may contain secrets, and other users can read arguments.
    process.stdin.write(json.dumps(asdict(charge)).encode() + b"\n")
    process.stdin.flush()
    return process


def started(guard: subprocess.Popen[bytes]) -> int:
    """Return the process id of a guard's server, unless this machine cannot keep it off the network."""
    from triton_models.base.errors import FleetError

    assert guard.stdout is not None  # noqa: S101  given by PIPE
    first = guard.stdout.readline().decode().strip()
    if first.isdigit():
        return int(first)
    raise FleetError.of(
        what=f"the Triton server cannot be kept off the network: {first or 'its guard ended'}",
        where=f"Linux {platform.release()} on {platform.machine()}",
        why="Triton checks no identity, and anyone who reaches it can run code as you",
        fix="run this on Linux 5.9 or later on x86_64 or aarch64; in a container, start it with a seccomp "
        "profile that allows seccomp(), pidfd_getfd() and ptrace of its own processes, as Docker's does from "
        "version 20.10",
        rule="open-port",
    )


def remove_leftovers(patterns: Iterable[str]) -> None:
    """Remove every file and folder that the patterns match."""
    for pattern in patterns:
        for name in glob.glob(pattern):  # noqa: PTH207  the patterns are absolute
            path = Path(name)
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def main() -> None:
    """Guard one server until the parent closes our standard input."""
    charge = Charge(**json.loads(sys.stdin.buffer.readline()))
    # A signal to all processes also ends the server or the parent, and then the guard still has to clean up.
    # Handlers, because the server would inherit ignored signals.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    libc = ctypes.CDLL(None)
    # Processes that the server leaves running become our children, so that we can wait for their end.
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ours, theirs = socket.socketpair()
    with Path(charge.log).open("ab") if charge.log else os.fdopen(os.dup(2), "ab") as log:
        try:
            server = subprocess.Popen(
                charge.command,
                env=charge.environment,
                cwd=charge.start or charge.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=partial(_prepare, libc, theirs),  # noqa: PLW1509  system calls alone
            )
        except subprocess.SubprocessError:
            os.write(1, ours.recv(_LONGEST_REASON) + b"\n")
            return
    answer_calls(ours, Path(charge.sockets) if charge.sockets else None, report=partial(_note, charge.log))
    os.write(1, f"{server.pid}\n".encode())
    release = threading.Thread(target=_wait_for_parent, args=(server.pid,), daemon=True)
    release.start()
    # WNOWAIT prevents reuse of the process id, and so of the group's id, before we signal the group.
    ended = os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
    _kill_group(server.pid)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    remove_leftovers(charge.leftovers)
    if ended is not None:
        status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        with contextlib.suppress(OSError):  # the parent is gone
            os.write(1, f"{status}\n".encode())
    os.close(1)
    release.join()
    shutil.rmtree(charge.directory, ignore_errors=True)


def _prepare(libc: ctypes.CDLL, to: socket.socket) -> None:
    # If the guard itself is killed, the kernel kills the server too.
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    ask_about_own_calls(to)


def _note(log: str, line: str) -> None:
    with Path(log or "/dev/stderr").open("a") as file:
        file.write(f"{line}\n")


def _wait_for_parent(group: int) -> None:
    while os.read(0, 4096):
        pass
    _kill_group(group)


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
