"""A server's usage of its machine: processor and memory from /proc, and the disk usage of its folder."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

# The fields of /proc/<pid>/stat after the command's name, counted from 0: see proc(5).
_SESSION, _USER_TICKS, _SYSTEM_TICKS, _RESIDENT_PAGES = 3, 11, 12, 21


class UsageMeter:
    """Measures the processes of one session and the folder in which they work.

    Args:
        session: The session id, which is the process id of its first process.
        directory: The folder.
        memory: The machine's memory in bytes; None for that of this machine.
        disk: The machine's disk in bytes; None for that of this machine.
    """

    def __init__(
        self, session: int, directory: Path, *, memory: int | None = None, disk: int | None = None
    ) -> None:
        self._session = str(session)
        self._directory = directory
        self._memory = memory or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._disk = disk
        self._last = (time.monotonic(), self._totals()[0])

    def cpu_percent(self) -> float:
        """Return the processor usage since the last call; 100 per busy core."""
        now, ticks = time.monotonic(), self._totals()[0]
        (before, ticks_before), self._last = self._last, (now, ticks)
        seconds = (ticks - ticks_before) / os.sysconf("SC_CLK_TCK")
        return max(0.0, 100 * seconds / max(now - before, 1e-3))

    def memory_percent(self) -> float:
        """Return the resident memory as a percentage of the machine's."""
        return 100 * self._totals()[1] * os.sysconf("SC_PAGE_SIZE") / self._memory

    def disk_percent(self) -> float:
        """Return the size of the folder as a percentage of its disk's."""
        used = 0
        for folder, _, files in os.walk(self._directory):
            for name in files:
                try:
                    used += (Path(folder) / name).lstat().st_size
                except FileNotFoundError:
                    continue
        if not self._directory.exists():
            return 0.0
        return 100 * used / (self._disk or shutil.disk_usage(self._directory).total)

    def _totals(self) -> tuple[int, int]:
        """Return the processor ticks and resident pages of all processes."""
        ticks = pages = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if fields[_SESSION] == self._session:
                ticks += int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])
                pages += int(fields[_RESIDENT_PAGES])
        return ticks, pages
