"""Processes that act as containers: everything that one starts, in any session, ends with it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path

from triton_models.base.processes import end_group, tie_to_parent

_PR_SET_CHILD_SUBREAPER = 36
_GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.02
_libc = ctypes.CDLL(None, use_errno=True)


def contain() -> None:
    """Tie the calling process to its parent and let it adopt orphans. For use as a child's `preexec_fn`.

    `end_contained` then also finds processes that moved to another session.
    """
    tie_to_parent()
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_contained(process: subprocess.Popen[str]) -> None:
    """End everything that a process started with `contain` has started, then the process itself."""
    _end_descendants(process.pid)
    end_group(process)


def _end_descendants(pid: int) -> None:
    """Ask the descendants to end, wait, then kill them. Returns when none runs."""
    deadline = time.monotonic() + _GRACE_SECONDS
    asked: set[int] = set()
    while running := _descendants(pid):
        late = time.monotonic() > deadline
        for each in running:
            if late or each not in asked:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(each, signal.SIGKILL if late else signal.SIGTERM)
                asked.add(each)
        time.sleep(_POLL_SECONDS)


def _descendants(pid: int) -> set[int]:
    """Return the descendants that have not ended."""
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
