"""The content of one file of an artifact: on disk, where it must not change meanwhile, or in memory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from triton_models.base.checks import FROM_ARGUMENTS, UNREADABLE, Check
from triton_models.base.errors import FleetError

CHANGED_WHILE_PACKED = Check(id="changed-while-packed", source=FROM_ARGUMENTS)


@dataclass(frozen=True, slots=True)
class InMemory:
    """A content in memory."""

    data: bytes

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self.data)

    def read(self, size: int, *, offset: int) -> bytes:
        """Return `size` bytes from an offset on."""
        return self.data[offset : offset + size]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDisk:
    """A file's content, read piece by piece. `identity` detects changes."""

    path: str
    size: int
    identity: tuple[int, ...]

    @classmethod
    def of(cls, source: Path, *, root: Path) -> OnDisk:
        """Return the content of a file below a folder."""
        path = os.path.realpath(source)
        if not Path(path).is_relative_to(root):
            raise _changed(source)
        with _opened(path) as descriptor:
            found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _changed(source)
        return cls(path=path, size=found.st_size, identity=_identity(found))

    def read(self, size: int, *, offset: int) -> bytes:
        """Return `size` bytes from an offset on."""
        with _opened(self.path) as descriptor:
            data = os.pread(descriptor, size, offset)
            found = os.fstat(descriptor)
        if len(data) < size or _identity(found) != self.identity:
            raise _changed(self.path)
        return data


Content: TypeAlias = InMemory | OnDisk
"""A content of known size, readable at any offset in any thread."""


@contextmanager
def _opened(path: str) -> Iterator[int]:
    """Yield a file opened for reading, without following links or waiting for pipes."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise _changed(path) from None
    except OSError as error:
        what = f"cannot read the file: {error.strerror or error}"
        raise UNREADABLE.error(what=what, where=path, fix="check the permissions and the disk") from None


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _changed(path: str | Path) -> FleetError:
    what = "the file changed while the model was packed"
    why = "the artifact would mix two states, neither of which was checked"
    fix = "wait until no process writes to the model, then pack it again"
    return CHANGED_WHILE_PACKED.error(what=what, where=str(path), why=why, fix=fix)
