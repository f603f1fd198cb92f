"""Child processes that never outlive the process that started them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_GRACE_SECONDS = 5.0
_libc = ctypes.CDLL(None, use_errno=True)


def tie_to_parent() -> None:
    """Make the kernel kill the calling process when its parent dies; for a child's `preexec_fn`.

    The parent is the thread that started the child, so that thread must live as long as the child is
    needed. Works on Linux only; elsewhere this does nothing.
    """
    if sys.platform == "linux":
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end_group(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """End a process started with `start_new_session=True`, and everything it started.

    Sends SIGTERM, waits a few seconds, then kills. Returns when the process is gone.
    """
    _signal_group(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_GRACE_SECONDS)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    # The group may be gone, or hold only processes that are ending.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def descendants(pid: int) -> set[int]:
    """Return the running processes that a process has started, and those that they have, in any session."""
    children: dict[int, list[int]] = {}
    ended = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name, in parentheses, may contain any character.
            state, parent, *_ = status.read_text().rpartition(")")[2].split()
            child = int(status.parent.name)
            children.setdefault(int(parent), []).append(child)
            if state in "ZX":
                ended.add(child)
    found, look = set(), [pid]
    while look:
        below = children.get(look.pop(), [])
        found.update(below)
        look += below
    return found - ended


@contextlib.contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """Treat SIGTERM, which build services send to end a build, like Ctrl-C."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
