"""The content of one file of an artifact: on disk, where it must not change meanwhile, or in memory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from triton_models.base.errors import FleetError


class Content(Protocol):
    """Bytes of a known number, which can be read from any place in any thread."""

    @property
    def size(self) -> int:
        """In bytes."""

    def fill(self, places: Iterable[memoryview], *, offset: int) -> None:
        """Read what begins at an offset into one place after the other.

        Raises:
            FleetError: It cannot be read, or is not what it was when it was looked at first.
        """


@dataclass(frozen=True, slots=True)
class InMemory:
    """A content that was read already."""

    data: bytes

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.data)

    def fill(self, places: Iterable[memoryview], *, offset: int) -> None:
        """As in `Content`."""
        for place in places:
            place[:] = self.data[offset : offset + len(place)]
            offset += len(place)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDisk:
    """A file's content, read piece by piece.

    Attributes:
        path: The file itself, links resolved.
        size: In bytes.
        identity: Device, number, size and time of the last change, which stay as long as the content does.
    """

    path: str
    size: int
    identity: tuple[int, ...]

    @classmethod
    def of(cls, source: Path, *, root: Path) -> OnDisk:
        """The content of a file below a folder.

        Raises:
            FleetError: It cannot be read, is no file any more, or leads out of the folder.
        """
        path = os.path.realpath(source)
        if not Path(path).is_relative_to(root):
            raise _changed(source)
        with _opened(path) as descriptor:
            found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _changed(source)
        return cls(path=path, size=found.st_size, identity=_identity(found))

    def fill(self, places: Iterable[memoryview], *, offset: int) -> None:
        """As in `Content`."""
        with _opened(self.path) as descriptor:
            for place in places:
                offset = self._fill(place, descriptor=descriptor, offset=offset)
            found = os.fstat(descriptor)
        if _identity(found) != self.identity:
            raise _changed(self.path)

    def _fill(self, place: memoryview, *, descriptor: int, offset: int) -> int:
        while place:
            count = os.preadv(descriptor, [place], offset)
            if count == 0:
                raise _changed(self.path)
            place, offset = place[count:], offset + count
        return offset


def read(content: Content) -> bytes:
    """All of a content; for one that is known to be small."""
    data = bytearray(content.size)
    content.fill([memoryview(data)], offset=0)
    return bytes(data)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    """A file to read. What was put in its place is not followed and not waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise _changed(path) from None
    except OSError as error:
        raise FleetError.of(
            what=f"cannot be read: {error.strerror or error}",
            where=path,
            expected="a file that you may read",
            fix="check the rights and the disk",
            rule="unreadable",
        ) from None


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _changed(path: str | Path) -> FleetError:
    return FleetError.of(
        what="the file was changed while the model was packed",
        where=str(path),
        expected="a model that stays as it is until it is packed",
        why="the artifact would hold a mixture of two states, and neither was checked",
        fix="wait until nothing writes to the model, and pack it again",
        rule="changed-while-packed",
    )
