"""Whatever a process started, in whatever session, ends with it; see also `triton_models.base.processes`."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.02
_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Make whatever loses its parent below the calling process a child of it; for a child's `preexec_fn`.

    What a command started in a session of its own is then still found by `end_descendants`.
    """
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_descendants(pid: int) -> None:
    """End everything that a process started, and what that started: asks, waits a little, then kills.

    The process itself stays, and has to adopt orphans. Returns when nothing of it runs any more.
    """
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
    """The processes below one, without those that have ended and wait for their parent."""
    children: dict[int, list[int]] = {}
    ended = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name, in brackets, may hold anything.
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
