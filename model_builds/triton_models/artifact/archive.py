"""A strict reader of archives: artifacts, packed environments and weights.

It reads to the end, verifies every checksum, and streams contents, so memory grows only with the number of
names. It refuses everything that GNU tar and Python's tarfile read differently. tarfile itself silently takes
a damaged header for the end, reads a prefix in formats without one, treats unknown types as files, and
accepts numbers such as "1_0" and any size in an extended header.
"""

from __future__ import annotations

import itertools
import posixpath
import secrets
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from triton_models.artifact.unpacking import headers
from triton_models.artifact.unpacking.entries import Entry, entries
from triton_models.artifact.unpacking.inflate import MAGIC, inflated, limited, parts_of
from triton_models.artifact.unpacking.limits import LIMITS, Limits
from triton_models.artifact.unpacking.refusals import CHECKS, RefusedError, problem, shown
from triton_models.artifact.unpacking.tape import Content, Tape
from triton_models.artifact.unpacking.tree import Tree, path_limit, path_problem
from triton_models.artifact.unpacking.zipped import zip_entries
from triton_models.base.errors import FleetError, Problem

__all__ = [
    "ARTIFACT",
    "CHECKS",
    "ENVIRONMENT",
    "LIMITS",
    "WEIGHTS",
    "WEIGHTS_LIMITS",
    "ZIPPED_WEIGHTS",
    "Form",
    "Limits",
    "Member",
    "limit_problems",
    "members",
    "problem",
    "unpack",
]

_MOST_PROBLEMS = 50
_EXECUTABLE = 0o100


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The permitted forms of an archive.

    Attributes:
        plain: True to accept an uncompressed tar archive.
        links: True to accept links. They are not followed, and their targets are not checked.
        repeats: True to accept repeated files, of which every reader uses the last one.
        zipped: True for a zip archive instead of a tar archive.
    """

    plain: bool = False
    links: bool = False
    repeats: bool = False
    zipped: bool = False


ARTIFACT = Form()

ENVIRONMENT = Form(plain=True, links=True, repeats=True)
"""The form of conda-pack and venv-pack: with links to an interpreter, and pyvenv.cfg twice."""

WEIGHTS = Form(plain=True)
"""The form of weights: files and folders, as `tar` and training jobs pack them."""

ZIPPED_WEIGHTS = Form(zipped=True)
"""The same in a zip archive."""

WEIGHTS_LIMITS = Limits(members=100_000, unpacked_bytes=256 << 30, ratio=100)
"""The limits of weights: 70 billion parameters take 140 GB in FP16, and deflate saves little of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A file, folder or link of an archive.

    Attributes:
        path: Its path, relative and normalized.
        kind: Its kind.
        size: The size of its content in bytes.
        executable: True if its owner may execute it.
        content: Its content, readable until the next member is requested.
    """

    path: str
    kind: Literal["file", "folder", "link"]
    size: int
    executable: bool
    content: Content


def members(
    source: IO[bytes], *, where: str, form: Form = ARTIFACT, limits: Limits = LIMITS
) -> Iterator[Member]:
    """Yield every member of an archive, in order.

    Problems that do not prevent reading are collected and raised together at the end; their members are not
    yielded. Members must therefore not be trusted before the iteration ends.

    Args:
        source: The archive, read once from start to end.
        where: The archive's name in errors.
        form: The permitted form.
        limits: The limits of its size.

    Raises:
        FleetError: A check refuses the archive; see `CHECKS`.
        OSError: The source cannot be read.
    """
    return _Reading(where, form, limits).members(source)


def unpack(
    source: IO[bytes],
    folder: Path,
    *,
    where: str,
    executables: bool = True,
    form: Form = ARTIFACT,
    limits: Limits = LIMITS,
) -> None:
    """Unpack an archive into a folder, atomically.

    Args:
        source: The archive, read once from start to end.
        folder: The folder to create. Its parent exists.
        where: The archive's name in errors.
        executables: True to keep files executable.
        form: The permitted form, without links and repeated files.
        limits: The limits of its size.

    Raises:
        FleetError: The archive breaks rules. No files are left.
        OSError: The source cannot be read, or the folder cannot be written. No files are left.
    """
    staging = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    staging.mkdir()
    try:
        for member in members(source, where=where, form=form, limits=limits):
            _write(member, staging / member.path, executable=executables and member.executable)
        staging.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def limit_problems(
    paths: Collection[str], *, size: int, where: str, limits: Limits = LIMITS
) -> Iterator[Problem]:
    """Yield the problems of files and folders that exceed the limits of an archive.

    Args:
        paths: Their paths in the archive.
        size: The total size of the files, in bytes.
        where: The model's name in errors.
        limits: The limits of an archive.
    """
    for path in paths:
        what = path_limit(path, limits)
        if what is not None:
            yield problem("archive-limit", what, where=f"{where}: {shown(path)}")
    for found, limit, unit in (
        (len(paths), limits.members, "files and folders"),
        (size, limits.unpacked_bytes, "bytes"),
    ):
        if found > limit:
            yield problem("archive-limit", f"{found} {unit}, more than {limit}", where=where)


def _write(member: Member, path: Path, *, executable: bool) -> None:
    if member.kind == "folder":
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        for piece in member.content.pieces():
            file.write(piece)
    path.chmod(0o755 if executable else 0o644)


class _Reading:
    """The state of reading an archive."""

    def __init__(self, where: str, form: Form, limits: Limits) -> None:
        self._where = where
        self._form = form
        self._limits = limits
        self._tree = Tree(repeats=form.repeats)
        self._problems: list[Problem] = []

    def members(self, source: IO[bytes]) -> Iterator[Member]:
        try:
            for count, entry in enumerate(self._entries(source), start=1):
                self._refuse_many(count)
                member = self._member(entry)
                if member is not None:
                    yield member
        except RefusedError as error:
            raise self._failure(error) from None
        if self._problems:
            raise FleetError(self._problems)

    def _entries(self, source: IO[bytes]) -> Iterator[Entry]:
        if self._form.zipped:
            return zip_entries(source, self._limits, self._failure)
        return entries(Tape(self._unpacked(source), self._failure), self._limits)

    def _failure(self, error: RefusedError) -> FleetError:
        return FleetError([*self._problems, problem(error.check, error.what, where=self._where)])

    def _unpacked(self, source: IO[bytes]) -> Iterator[bytes]:
        parts = parts_of(source)
        first = next(parts, b"")
        if self._form.plain and not first.startswith(MAGIC[: len(first)]):
            return limited(itertools.chain([first], parts), self._limits)
        return inflated(itertools.chain([first] if first else [], parts), self._limits)

    def _refuse_many(self, count: int) -> None:
        if count > self._limits.members:
            raise RefusedError("archive-limit", f"more than {self._limits.members} files and folders")
        if len(self._problems) >= _MOST_PROBLEMS:
            rule = self._problems[-1].rule
            raise RefusedError(rule, f"{_MOST_PROBLEMS} problems and perhaps more: the rest was not read")

    def _member(self, entry: Entry) -> Member | None:
        """Return the member of an entry; None if it has a problem or is the top of the archive."""
        folder = entry.kind == headers.FOLDER
        link = entry.kind in headers.LINKS
        found = self._kind_problem(entry) or path_problem(entry.name, folder=folder, limits=self._limits)
        if found is not None:
            self._refuse(entry, *found)
            return None
        path = posixpath.normpath(entry.name.decode())
        if path == ".":
            return None
        clash = self._tree.clash(path, folder=folder, link=link)
        if clash is not None:
            self._refuse(entry, "archive-clash", clash)
            return None
        return Member(
            path=path,
            kind="folder" if folder else "link" if link else "file",
            size=entry.size,
            executable=bool(entry.mode & _EXECUTABLE),
            content=entry.content,
        )

    def _kind_problem(self, entry: Entry) -> tuple[str, str] | None:
        if entry.kind in headers.DEVICES:
            return "archive-kind", "a device or a pipe"
        if entry.kind in headers.LINKS and not self._form.links:
            return "archive-link", "a symbolic link" if entry.kind == b"2" else "a hard link"
        return None

    def _refuse(self, entry: Entry, rule: str, what: str) -> None:
        self._problems.append(problem(rule, what, where=f"{self._where}: {shown(entry.name)}"))
