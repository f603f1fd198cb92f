"""The traces of a Triton server on this machine, to check that none remains."""

from __future__ import annotations

from pathlib import Path

SHARED_MEMORY = "/dev/shm"  # noqa: S108  Linux's folder for it
TEMPORARY = "/tmp"  # noqa: S108  Triton unpacks environments here, even if TMPDIR is set


def traces(mark: str, session: int, directory: Path) -> list[str | Path]:
    """Return the server's existing processes, shared memory and folders."""
    sessions = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            sessions[stat.parent.name] = stat.read_text().rpartition(")")[2].split()[3]
        except (FileNotFoundError, ProcessLookupError):
            continue
    processes = [pid for pid, its_session in sessions.items() if its_session == str(session)]
    places = [*Path(SHARED_MEMORY).glob(f"{mark}*"), *Path(TEMPORARY).glob(f"{mark}*")]
    return [*processes, *places, *([directory] if directory.exists() else [])]
