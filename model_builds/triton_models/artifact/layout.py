"""What an artifact holds: names, sizes and configuration texts, from a directory or straight from a .tar.gz.

A directory is seen as it would be packed: what packing leaves out is not there. An archive is read once, from
front to back, and never unpacked to disk. A directory may also be a whole model repository, of thousands of
models: whatever takes time for each file is done only when it is asked for.
"""

from __future__ import annotations

import io
import json
import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from triton_models.artifact import archive
from triton_models.artifact.archive import LIMITS, Member
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.config.pbtxt import CONFIG_FILE

BUILD_RECORD = Check(id="build-record", source=FROM_ARGUMENTS)
UNREADABLE = Check(id="unreadable", source=FROM_ARGUMENTS)
UNPACKABLE = Check(id="unpackable", source=FROM_ARGUMENTS)

BUILD_FILE = "build.json"
ARCHIVE_SUFFIX = ".tar.gz"

REFUSED_FILE = ".refused.json"
"""What a failed verification leaves in a built root; see `triton_models.artifact.refusal`."""

# Left by tools, wanted by nobody. SageMaker could take .ipynb_checkpoints for the model.
LEFT_OUT = frozenset({"__pycache__", ".DS_Store", ".ipynb_checkpoints", REFUSED_FILE})

# A configuration is a few kilobytes; the limit keeps a hostile archive out of memory.
_MAX_TEXT_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 20

# What is kept of every other file of an archive: enough to tell a plan and the version that made it.
_BEGINNING_BYTES = 64

# But of these all: the code of a model, and what a package of an environment says it was built for.
_KEPT_WHOLE = frozenset({"model.py", "WHEEL"})

_ARTIFACT_NAME = re.compile(r"(?P<model>.+)-(?P<digest>[0-9a-f]{16})")

# As Triton's core reads them: digits, and no leading zero.
_VERSION_NAME = re.compile(r"[1-9][0-9]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The content of one artifact.

    Attributes:
        where: The path it was read from, for errors.
        model: The model's name: the directory's, or what the archive's file name says.
        files: Path inside the artifact, with forward slashes -> size in bytes.
        directories: Every directory inside the artifact.
        texts: The content of each *.pbtxt and of build.json at the top.
        sources: Path inside the artifact -> the file on disk. Empty for an archive.
        beginnings: The first bytes of each other file of an archive; all of a model.py or WHEEL.
    """

    where: str
    model: str
    files: Mapping[str, int]
    directories: frozenset[str]
    texts: Mapping[str, bytes]
    sources: Mapping[str, Path] = field(default_factory=dict)
    beginnings: Mapping[str, bytes] = field(default_factory=dict)
    _children: Mapping[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        children: dict[str, list[str]] = {}
        for directory in sorted(self.directories):
            folder, _, name = directory.rpartition("/")
            children.setdefault(folder, []).append(name)
        frozen = {folder: tuple(names) for folder, names in children.items()}
        object.__setattr__(self, "_children", frozen)

    def children(self, folder: str) -> tuple[str, ...]:
        """The names of the directories directly inside a directory ("" is the top), sorted."""
        return self._children.get(folder, ())

    def beginning(self, path: str, size: int) -> bytes | None:
        """Up to `size` first bytes of a file; None if they cannot be had.

        Of an archive 64 bytes are kept, and all of a model.py, of a WHEEL and of what is in `texts`.
        """
        if path in self.texts:
            return self.texts[path][:size]
        if path in self.beginnings:
            return self.beginnings[path][:size]
        if path not in self.sources:
            return None
        try:
            with self.sources[path].open("rb") as file:
                return file.read(size)
        except OSError:
            return None

    @contextmanager
    def opened(self, path: str) -> Iterator[IO[bytes]]:
        """All of a file's content, from front to back; an archive is read once more for it.

        Raises:
            OSError: It cannot be read.
        """
        if path in self.sources:
            with self.sources[path].open("rb") as file:
                yield file
            return
        with Path(self.where).open("rb") as content:
            for member in archive.members(content, where=self.where):
                if member.path == path and member.kind == "file":
                    yield io.BufferedReader(member.content, _CHUNK_BYTES)
                    return
        raise FileNotFoundError(path)

    def joined(self, other: Layout) -> Layout:
        """This layout with what another one holds beside it."""
        return Layout(
            where=self.where,
            model=self.model,
            files={**self.files, **other.files},
            directories=self.directories | other.directories,
            texts={**self.texts, **other.texts},
            sources={**self.sources, **other.sources},
            beginnings={**self.beginnings, **other.beginnings},
        )

    def has(self, path: str) -> bool:
        """Whether there is a file or directory of that path."""
        return path in self.files or path in self.directories

    def place(self, path: str) -> str:
        """A path inside the artifact as an error names it."""
        if path in self.sources:
            return str(self.sources[path])
        return f"{self.where}: {path}" if path else self.where

    def build(self) -> dict[str, Any]:
        """What build.json says; empty without one.

        Raises:
            FleetError: It is not a JSON object.
        """
        if BUILD_FILE not in self.texts:
            return {}
        try:
            said = json.loads(self.texts[BUILD_FILE])
        except ValueError:
            said = None
        if isinstance(said, dict):
            return said
        raise BUILD_RECORD.error(
            what=f"{BUILD_FILE} is not a JSON object",
            where=self.place(BUILD_FILE),
            expected="what `fleet build` wrote",
            why="without it a plan for another GPU or TensorRT fails only when it loads",
            fix="build the model again, or remove the file",
        )


def is_version(name: str) -> bool:
    """Whether a directory of that name is a model version to Triton."""
    return _VERSION_NAME.fullmatch(name) is not None


def model_name(path: Path) -> str:
    """The model's name that an archive's file name says, without its digest."""
    stem = path.name.removesuffix(ARCHIVE_SUFFIX)
    match = _ARTIFACT_NAME.fullmatch(stem)
    return match["model"] if match else stem


def read_layout(path: Path, *, follow_links: bool = False) -> Layout:
    """The content of an artifact root, of a bare model directory, of a model repository, or of a .tar.gz.

    A bare model directory is seen inside a folder of its own name, which is how it is packed.

    Args:
        path: What to read.
        follow_links: See a directory as Triton does, which follows a link wherever it leads and has no use
            for a broken one, and not as it is packed, which refuses both.

    Raises:
        FleetError: Nothing is there, it cannot be read, or something in it leads outside; everything at once.
    """
    try:
        if path.is_dir():
            return _read_directory(path, follow_links=follow_links)
        if path.is_file():
            return _read_archive(path)
    except OSError as error:
        raise UNREADABLE.error(
            what=f"cannot be read: {error.strerror}",
            where=str(error.filename or path),
            expected="files and folders that you may read",
            why="what cannot be read can be neither checked nor packed",
            fix="check the rights and the disk",
        ) from None
    raise UNREADABLE.error(
        what=f"there is no file or directory {str(path)!r}",
        where=str(path),
        expected=f"a built model, a Triton model directory, or a {ARCHIVE_SUFFIX}",
        why="there is nothing to check or to pack",
        fix="check the path; `fleet build NAME` writes build/NAME",
    )


def _parent(path: str) -> str:
    return posixpath.dirname(path)


# Directories


def _read_directory(root: Path, *, follow_links: bool) -> Layout:
    root = Path(os.path.abspath(root))  # noqa: PTH100 (resolve() would lose the name of a link)
    walk = _Walk(root, follow_links=follow_links)
    walk.directory(str(root), folder="", above=())
    raise_if_any(walk.problems)
    files, directories, sources = walk.files, walk.directories, walk.sources
    if _is_bare(files, directories):
        name = root.name
        files = {f"{name}/{path}": size for path, size in files.items()}
        sources = {f"{name}/{path}": source for path, source in sources.items()}
        directories = {name} | {f"{name}/{path}" for path in directories}
    texts = {
        path: Path(source).read_bytes()
        for path, source in sources.items()
        if _is_text(path) and files[path] <= _MAX_TEXT_BYTES
    }
    return Layout(
        where=str(root),
        model=root.name,
        files=files,
        directories=frozenset(directories),
        texts=texts,
        sources={path: Path(source) for path, source in sources.items()},
    )


def _is_bare(files: Mapping[str, int], directories: set[str]) -> bool:
    if CONFIG_FILE in files:
        return True
    tops = [directory for directory in directories if "/" not in directory]
    configured = any(f"{top}/{CONFIG_FILE}" in files for top in tops)
    return not configured and any(is_version(top) for top in tops)


class _Walk:
    """Everything below a directory, collected entry by entry, in the order of the names."""

    def __init__(self, root: Path, *, follow_links: bool) -> None:
        self.files: dict[str, int] = {}
        self.directories: set[str] = set()
        self.sources: dict[str, str] = {}
        self.problems: list[Problem] = []
        self._real_root = root.resolve()
        self._follow_links = follow_links

    def directory(self, directory: str, *, folder: str, above: tuple[tuple[int, int], ...]) -> None:
        """Collect what is in a directory; `above` tells the directories that it is in from each other."""
        found = Path(directory).stat()
        above = (*above, (found.st_dev, found.st_ino))
        with os.scandir(directory) as entries:
            ordered = sorted((e for e in entries if e.name not in LEFT_OUT), key=lambda entry: entry.name)
        for entry in ordered:
            link = entry.is_symlink()
            if self._follow_links and not self._is_seen(entry, above, link=link):
                continue
            problem = None if self._follow_links else self._refused(entry, above, link=link)
            if problem is not None:
                self.problems.append(problem)
                continue
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir():
                self.directories.add(path)
                self.directory(entry.path, folder=path, above=above)
            else:
                self.files[path] = entry.stat().st_size
                self.sources[path] = entry.path

    @staticmethod
    def _is_seen(entry: os.DirEntry[str], above: tuple[tuple[int, int], ...], *, link: bool) -> bool:
        """Whether an entry has a name that a configuration can say, and leads on if it is a link."""
        try:
            entry.name.encode()
            if not link:
                return True
            found = entry.stat()
        except (UnicodeEncodeError, OSError):
            return False
        return (found.st_dev, found.st_ino) not in above

    def _refused(
        self, entry: os.DirEntry[str], above: tuple[tuple[int, int], ...], *, link: bool
    ) -> Problem | None:
        """Why an entry cannot be part of an artifact, or None if it can."""
        place = Path(entry.path)
        try:
            entry.name.encode()
        except UnicodeEncodeError:
            return _unpackable(
                place,
                what=f"a name that is not UTF-8: {entry.name!r}",
                why="neither an archive nor a config.pbtxt can hold the name",
                fix="rename it",
            )
        if link:
            problem = _refused_link(place, real_root=self._real_root, above=above)
            if problem is not None:
                return problem
        is_directory = entry.is_dir()
        if not (is_directory or entry.is_file()):
            return _unpackable(
                place,
                what="neither a file nor a folder",
                why="a pipe, a socket or a device has no content that could be packed",
                fix="remove it",
            )
        if not os.access(entry.path, os.R_OK | (os.X_OK if is_directory else 0)):
            return _unpackable(
                place,
                what="not readable",
                why="its content could not be packed, and the model would lack it on the endpoint",
                fix="give yourself the right to read it",
            )
        return None


def _refused_link(entry: Path, *, real_root: Path, above: tuple[tuple[int, int], ...]) -> Problem | None:
    target = str(entry.readlink())
    real = Path(os.path.realpath(entry))  # unlike Path.resolve(), it does not raise on a loop
    if not real.exists():
        return _unpackable(
            entry,
            what=f"a link to nothing: {target!r}",
            why="there is nothing to pack under its name",
            fix="fix or remove the link",
        )
    if not real.is_relative_to(real_root):
        return _unpackable(
            entry,
            what=f"a link that leaves the model: {target!r}",
            why="its target is not part of the model",
            fix="copy the file into the model",
        )
    found = real.stat()
    if (found.st_dev, found.st_ino) in above:
        return _unpackable(
            entry,
            what=f"a link to its own folder: {target!r}",
            why="whoever follows it, to read or to pack the model, never comes to an end",
            fix="remove the link",
        )
    return None


def _unpackable(entry: Path, *, what: str, why: str, fix: str) -> Problem:
    return UNPACKABLE.problem(
        what=what,
        where=os.fsencode(entry).decode(errors="backslashreplace"),
        expected="files and folders inside the model, or links that stay inside it",
        why=why,
        fix=fix,
    )


# Archives


def _read_archive(path: Path) -> Layout:
    if not path.name.endswith(ARCHIVE_SUFFIX):
        raise UNREADABLE.error(
            what=f"a file that is not a {ARCHIVE_SUFFIX}: {path.name!r}",
            where=str(path),
            expected=f"a directory or a {ARCHIVE_SUFFIX}",
            why="SageMaker takes only gzipped tar archives for a multi-model endpoint",
            fix="`fleet pack DIRECTORY -o DIR` makes one",
        )
    members = _Members(where=str(path))
    with path.open("rb") as content:
        for member in archive.members(content, where=str(path)):
            members.add(member)
    return Layout(
        where=str(path),
        model=model_name(path),
        files=members.files,
        directories=frozenset(members.directories),
        texts=members.texts,
        beginnings=members.beginnings,
    )


class _Members:
    """The members of an archive, collected one by one."""

    def __init__(self, *, where: str) -> None:
        self.files: dict[str, int] = {}
        self.directories: set[str] = set()
        self.texts: dict[str, bytes] = {}
        self.beginnings: dict[str, bytes] = {}
        self._where = where
        self._kept_bytes = 0

    def add(self, member: Member) -> None:
        """Keep what there is to know of a member."""
        path = member.path
        if member.kind == "folder":
            self._add_directory(path)
            return
        self._add_directory(_parent(path))
        self.files[path] = member.size
        if _is_text(path) and member.size <= _MAX_TEXT_BYTES:
            self.texts[path] = self._kept(member, member.size)
        else:
            whole = posixpath.basename(path) in _KEPT_WHOLE
            self.beginnings[path] = self._kept(member, _MAX_TEXT_BYTES if whole else _BEGINNING_BYTES)

    def _kept(self, member: Member, size: int) -> bytes:
        beginning = member.content.beginning(size)
        self._kept_bytes += len(beginning)
        if self._kept_bytes > LIMITS.kept_bytes:
            what = f"more than {LIMITS.kept_bytes} bytes of configurations and code"
            raise FleetError([archive.problem("archive-limit", what, where=self._where)])
        return beginning

    def _add_directory(self, path: str) -> None:
        while path and path not in self.directories:
            self.directories.add(path)
            path = _parent(path)


def _is_text(path: str) -> bool:
    return path.endswith(".pbtxt") or path == BUILD_FILE
