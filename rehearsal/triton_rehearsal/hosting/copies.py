"""The copies of models on an instance's disk, and which of them make room for others."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path


class Copies:
    """The sizes of copies, in the order of their use. It changes no file.

    Args:
        limit: The disk for all copies, in bytes; None for no limit.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._sizes: dict[str, int] = {}

    def use(self, name: str) -> None:
        """Make a copy the most recently used one."""
        if name in self._sizes:
            self._sizes[name] = self._sizes.pop(name)

    def add(self, name: str, size: int) -> None:
        """Add a new copy, in bytes."""
        self._sizes[name] = size

    def forget(self, name: str) -> None:
        """Forget a copy that is gone."""
        self._sizes.pop(name, None)

    @property
    def full(self) -> bool:
        """True if the copies need more than the disk has."""
        return self._limit is not None and sum(self._sizes.values()) > self._limit

    def unused(self, used: Container[str]) -> str | None:
        """Return the copy to remove first, among those that are not used; None without one."""
        return next((name for name in self._sizes if name not in used), None)


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
