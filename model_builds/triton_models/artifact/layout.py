"""The layout of an artifact: names, sizes and configurations, from a directory or directly from a .tar.gz.

A directory appears as it would be packed, without the files that packing omits. An archive is read once, from
start to end, and never unpacked to disk. A directory may also be a model repository of thousands of models,
so expensive work per file is done only on request.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from triton_models.artifact import archive
from triton_models.artifact.archive import Member
from triton_models.artifact.pbtxt import CONFIG_FILE
from triton_models.base.checks import FROM_ARGUMENTS, UNREADABLE, Check
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.base.json_text import parsed

BUILD_RECORD = Check(id="build-record", source=FROM_ARGUMENTS)
UNPACKABLE = Check(id="unpackable", source=FROM_ARGUMENTS)

BUILD_FILE = "build.json"
AUTO_COMPLETE = "auto_complete"
"""The key of build.json that is true if the server must complete the configurations."""

REQUEST = "request"
"""The key of build.json with the inputs of a request to the model."""

ANSWER = "answer"
"""The key of build.json with the outputs of the model."""

MAX_BATCH_SIZE = "max_batch_size"
"""The key of build.json with the most rows of a request; 0 if the model has no batches."""

TOLERANCE = "tolerance"
"""The key of build.json with the largest difference from the reference that its verification allows."""

ARCHIVE_SUFFIX = ".tar.gz"

REFUSED_FILE = ".refused.json"
"""The mark of a failed verification in a built root; see `triton_models.artifact.roots`."""

# Leftovers of tools. SageMaker could mistake .ipynb_checkpoints for the model.
LEFT_OUT = frozenset({"__pycache__", ".DS_Store", ".ipynb_checkpoints", REFUSED_FILE})

# A configuration is a few kilobytes; the limit keeps a hostile archive out of memory.
_MAX_TEXT_BYTES = 1 << 20
_MAX_KEPT_BYTES = 64 << 20

# The number of bytes kept of every other file of an archive: enough to detect a plan and its version.
_BEGINNING_BYTES = 64

# Files kept completely: the code of a model, and the compatibility tags of a package.
_KEPT_WHOLE = frozenset({"model.py", "WHEEL"})

MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
"""The name of a model. It becomes an object key and SageMaker's TargetModel, in which releases since 26.03
refuse a slash."""

_ARTIFACT_NAME = re.compile(r"(?P<model>.+)-(?P<digest>[0-9a-f]{16})", re.DOTALL)

# As in Triton's core: digits without a leading zero.
_VERSION_NAME = re.compile(r"[1-9][0-9]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The content of one artifact.

    Attributes:
        where: Its path, for errors.
        model: The model's name, from the directory or the archive's file name.
        files: The sizes in bytes, by path inside the artifact with forward slashes.
        directories: Every directory inside the artifact.
        texts: The content of each *.pbtxt and of build.json at the top.
        sources: The files on disk, by path inside the artifact. Empty for an archive.
        beginnings: The first bytes of each other file of an archive; a model.py or WHEEL is complete.
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
        """Return the sorted names of the directories directly inside a directory ("" is the top)."""
        return self._children.get(folder, ())

    def beginning(self, path: str, size: int) -> bytes | None:
        """Return up to `size` first bytes of a file; None if they are unavailable.

        For an archive, 64 bytes per file are available; a model.py, a WHEEL and the `texts` are complete.
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
        """Yield a file's content as a stream, which reads an archive again.

        Raises:
            OSError: The file cannot be read.
        """
        if path in self.sources:
            with self.sources[path].open("rb") as file:
                yield file
            return
        with Path(self.where).open("rb") as content:
            for member in archive.members(content, where=self.where):
                if member.path == path and member.kind == "file":
                    yield member.content
                    return
        raise FileNotFoundError(path)

    def contents(self, paths: Iterable[str], size: int) -> dict[str, bytes]:
        """Return up to `size` first bytes of files; an archive is read at most once, whatever their number.

        Files that cannot be read are missing.
        """
        found, absent = dict[str, bytes](), set[str]()
        for path in paths:
            beginning = self.beginning(path, size)
            if beginning is not None and len(beginning) == min(size, self.files.get(path, 0)):
                found[path] = beginning
            elif path not in self.sources:
                absent.add(path)
        if not absent:
            return found
        with suppress(OSError, FleetError), Path(self.where).open("rb") as content:
            for member in archive.members(content, where=self.where):
                if member.path in absent and member.kind == "file":
                    found[member.path] = member.content.read(size)
                    absent.remove(member.path)
                    if not absent:
                        break
        return found

    def joined(self, other: Layout) -> Layout:
        """Return this layout merged with another one."""
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
        """Return True if a file or directory with that path exists."""
        return path in self.files or path in self.directories

    def place(self, path: str) -> str:
        """Return a path inside the artifact as shown in errors."""
        if path in self.sources:
            return str(self.sources[path])
        return f"{self.where}: {path}" if path else self.where

    def build(self) -> dict[str, Any]:
        """Return the content of build.json; empty if it does not exist."""
        if BUILD_FILE not in self.texts:
            return {}
        try:
            said = parsed(self.texts[BUILD_FILE])
        except ValueError:
            said = None
        if isinstance(said, dict):
            return said
        what = f"{BUILD_FILE} is not a JSON object"
        why = "without it a plan for another GPU or TensorRT fails only when it loads"
        fix = "rebuild the model, or remove the file"
        raise BUILD_RECORD.error(what=what, where=self.place(BUILD_FILE), why=why, fix=fix)


def is_version(name: str) -> bool:
    """Return True if a directory with that name is a model version for Triton."""
    return _VERSION_NAME.fullmatch(name) is not None


def digest_of_artifact(name: str) -> str:
    """Return the digest in an artifact's file name, `<model>-<digest>.tar.gz`."""
    return name.removesuffix(ARCHIVE_SUFFIX).rpartition("-")[2]


def model_name(path: Path) -> str:
    """Return the model's name from an archive's file name, without its digest."""
    return model_of_key(path.name)


def model_of_key(key: str) -> str:
    """Return the model's name from an object key, or SageMaker's TargetModel, without suffix and digest.

    The folders stay: `tenant-a/model.tar.gz` and `tenant-b/model.tar.gz` are two models.
    """
    stem = key.removesuffix(ARCHIVE_SUFFIX)
    match = _ARTIFACT_NAME.fullmatch(stem)
    return match["model"] if match else stem


def read_layout(path: Path, *, follow_links: bool = False) -> Layout:
    """Read the layout of an artifact root, a bare model directory, a model repository, or a .tar.gz.

    A bare model directory appears inside a folder of its own name, as in its archive.

    With `follow_links`, a directory is read as Triton reads it: all links are followed, and broken ones
    ignored. Packing refuses both.
    """
    try:
        if path.is_dir():
            return _read_directory(path, follow_links=follow_links)
        if path.is_file():
            return _read_archive(path)
    except OSError as error:
        what = f"cannot read the files: {error.strerror}"
        why = "unreadable files can be neither checked nor packed"
        fix = "check the permissions and the disk"
        raise UNREADABLE.error(what=what, where=str(error.filename or path), why=why, fix=fix) from None
    what = f"the file or directory {str(path)!r} does not exist"
    fix = f"name a model directory or a {ARCHIVE_SUFFIX}, such as build/NAME of `fleet build NAME`"
    raise UNREADABLE.error(what=what, where=str(path), why="it can be neither checked nor packed", fix=fix)


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
    def __init__(self, root: Path, *, follow_links: bool) -> None:
        self.files: dict[str, int] = {}
        self.directories: set[str] = set()
        self.sources: dict[str, str] = {}
        self.problems: list[Problem] = []
        self._real_root = root.resolve()
        self._follow_links = follow_links

    def directory(self, directory: str, *, folder: str, above: tuple[tuple[int, int], ...]) -> None:
        """Collect the entries of a directory; `above` identifies its parents."""
        above = (*above, _identity(Path(directory).stat()))
        with os.scandir(directory) as entries:
            ordered = sorted((e for e in entries if e.name not in LEFT_OUT), key=lambda entry: entry.name)
        for entry in ordered:
            if self._follow_links and not self._is_seen(entry, above):
                continue
            refusal = None if self._follow_links else self._refusal(entry, above)
            if refusal is not None:
                what, fix = refusal
                where = os.fsencode(entry.path).decode(errors="backslashreplace")
                why = "the endpoint would lack it"
                self.problems.append(UNPACKABLE.problem(what=what, where=where, why=why, fix=fix))
                continue
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir():
                self.directories.add(path)
                self.directory(entry.path, folder=path, above=above)
            else:
                self.files[path] = entry.stat().st_size
                self.sources[path] = entry.path

    @staticmethod
    def _is_seen(entry: os.DirEntry[str], above: tuple[tuple[int, int], ...]) -> bool:
        """Return True if an entry's name is valid in a configuration and its link leads to another file."""
        try:
            entry.name.encode()
            return not entry.is_symlink() or _identity(entry.stat()) not in above
        except (UnicodeEncodeError, OSError):
            return False

    def _refusal(self, entry: os.DirEntry[str], above: tuple[tuple[int, int], ...]) -> tuple[str, str] | None:
        """Return what excludes an entry from an artifact, with the fix; None if nothing does."""
        try:
            entry.name.encode()
        except UnicodeEncodeError:
            return f"a name that is not UTF-8: {entry.name!r}", "rename it"
        if entry.is_symlink() and (refusal := self._link_refusal(Path(entry.path), above)) is not None:
            return refusal
        is_directory = entry.is_dir()
        if not (is_directory or entry.is_file()):
            return "neither a file nor a folder", "remove it: it has no content to pack"
        if not os.access(entry.path, os.R_OK | (os.X_OK if is_directory else 0)):
            return "not readable", "allow yourself to read it"
        return None

    def _link_refusal(self, link: Path, above: tuple[tuple[int, int], ...]) -> tuple[str, str] | None:
        target = str(link.readlink())
        real = Path(os.path.realpath(link))  # unlike Path.resolve(), it does not raise on a loop
        if not real.exists():
            return f"a link to nothing: {target!r}", "fix or remove the link"
        if not real.is_relative_to(self._real_root):
            return f"a link that leads out of the model: {target!r}", "copy the file into the model"
        if _identity(real.stat()) in above:
            return f"a link to its own folder: {target!r}", "remove the link, which never ends"
        return None


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


# Archives


def _read_archive(path: Path) -> Layout:
    if not path.name.endswith(ARCHIVE_SUFFIX):
        what = f"a file that is not a {ARCHIVE_SUFFIX}: {path.name!r}"
        why = "SageMaker accepts only gzipped tar archives for a multi-model endpoint"
        fix = "create one with `fleet pack DIRECTORY -o DIR`"
        raise UNREADABLE.error(what=what, where=str(path), why=why, fix=fix)
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
    def __init__(self, *, where: str) -> None:
        self.files: dict[str, int] = {}
        self.directories: set[str] = set()
        self.texts: dict[str, bytes] = {}
        self.beginnings: dict[str, bytes] = {}
        self._where = where
        self._kept_bytes = 0

    def add(self, member: Member) -> None:
        """Record a member."""
        path = member.path
        if member.kind == "folder":
            self._add_directory(path)
            return
        self._add_directory(posixpath.dirname(path))
        self.files[path] = member.size
        if _is_text(path) and member.size <= _MAX_TEXT_BYTES:
            self.texts[path] = self._kept(member, member.size)
        else:
            whole = posixpath.basename(path) in _KEPT_WHOLE
            self.beginnings[path] = self._kept(member, _MAX_TEXT_BYTES if whole else _BEGINNING_BYTES)

    def _kept(self, member: Member, size: int) -> bytes:
        beginning = member.content.read(size)
        self._kept_bytes += len(beginning)
        if self._kept_bytes > _MAX_KEPT_BYTES:
            what = f"more than {_MAX_KEPT_BYTES} bytes of configurations and code"
            raise archive.LIMIT.error(what=what, where=self._where, fix="shorten or split the model")
        return beginning

    def _add_directory(self, path: str) -> None:
        while path and path not in self.directories:
            self.directories.add(path)
            path = posixpath.dirname(path)


def _is_text(path: str) -> bool:
    return path.endswith(".pbtxt") or path == BUILD_FILE
