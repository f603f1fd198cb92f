"""The reader of archives: artifacts, packed environments and weights.

It reads an archive once, within limits, verifies every checksum, and writes files itself. tarfile parses
single header blocks, and zipfile lists zip archives, but neither unpacks: tarfile takes a damaged header for
the end and has no limits, and its filters are missing in some Pythons and have been bypassed (CVE-2025-4517).
"""

from __future__ import annotations

import io
import posixpath
import re
import secrets
import shutil
import stat
import sys
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Literal, NamedTuple

from triton_models.base.checks import Check, Report
from triton_models.base.errors import FleetError, Problem

_SOURCE = "GNU tar 1.34 and Python's tarfile: what they refuse, or read differently"
DAMAGED = Check(id="archive-damaged", source=_SOURCE)
NAME = Check(id="archive-name", source=_SOURCE)
LINK = Check(id="archive-link", source=_SOURCE)
KIND = Check(id="archive-kind", source=_SOURCE)
CLASH = Check(id="archive-clash", source=_SOURCE)
LIMIT = Check(id="archive-limit", source=_SOURCE)
TRAILING = Check(id="archive-trailing", source=_SOURCE)

_AGAIN = "pack the model again with `fleet pack`"
_FIXES = {
    DAMAGED: "pack the model again; if the file was copied, copy it again",
    NAME: f"rename the file to a relative path in UTF-8 without '..', and {_AGAIN}",
    LINK: f"unpack it, and {_AGAIN}, which packs the targets of links",
    KIND: f"unpack it, remove everything but files and folders, and {_AGAIN}",
    CLASH: f"remove one of them, and {_AGAIN}",
    LIMIT: "shorten the path, or split the model",
    TRAILING: f"{_AGAIN}; archives cannot be joined with `cat`",
}

_BLOCK_BYTES = 512
_PACKED_BYTES = 256 << 10
_PIECE_BYTES = 1 << 20
_MOST_PROBLEMS = 50
_SHOWN_CHARACTERS = 200
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP = 31  # zlib's code for a gzip header and trailer, both checked
_ENCRYPTED = 0x1  # of a zip archive's flags
_ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # LZMA's dictionary can take 4 GiB of memory
_DAMAGES = (zlib.error, zipfile.BadZipFile, EOFError, ValueError, RuntimeError, OverflowError)

_Kind = Literal["file", "folder", "link", "other"]
_KINDS: dict[bytes, _Kind] = {b"0": "file", b"\0": "file", b"5": "folder", b"1": "link", b"2": "link"}
_ZIP_KINDS: dict[int, _Kind] = {0: "file", stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
_EXTENSIONS = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_LINE = re.compile(rb"(?P<length>[1-9][0-9]{0,8}) (?P<key>[^=\n]+)=")
_SIZE = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an archive may be, and its limits.

    Attributes:
        plain: True to accept an uncompressed tar archive.
        links: True to accept links, which are not followed, and repeated files, of which the last one counts.
        zipped: True for a zip archive instead of a tar archive.
        name_bytes: The length of a file or folder name. ext4 and xfs, the file systems of the endpoint, allow
            255.
        path_bytes: The length of a path. Linux allows 4,095 bytes, including the folder to unpack to: 53 on
            the platform, such as /opt/ml/models/<32 digits>/model/, and more in a rehearsal.
        depth: The number of folders above a file. Programs that walk recursively, such as Python's
            shutil.rmtree, fail near 1,000; an environment with PyTorch has 15.
        members: The number of files and folders. An environment with PyTorch has 30,000. Their names are kept
            in memory to find clashes; `members` names take about 60 MB.
        unpacked_bytes: The size of the tar archive: that of the largest volume that SageMaker gives an
            instance, VolumeSizeInGB of CreateEndpointConfig.
        ratio: The number of unpacked bytes per packed byte, after `ratio_from_bytes` are unpacked. Deflate
            reaches 1,032 with zeros; weights stay below 20.
        ratio_from_bytes: The size above which `ratio` applies, so that small models may consist of zeros.
        header_bytes: The size of an extended header. GNU tar and Python write one line per attribute.
        seconds: The time that reading may take.
    """

    plain: bool = False
    links: bool = False
    zipped: bool = False
    name_bytes: int = 255
    path_bytes: int = 3_800
    depth: int = 64
    members: int = 200_000
    unpacked_bytes: int = 512 << 30
    ratio: int = 200
    ratio_from_bytes: int = 1 << 30
    header_bytes: int = 1 << 20
    seconds: float = 7_200


ARTIFACT = Limits()

ENVIRONMENT = Limits(plain=True, links=True)
"""conda-pack and venv-pack: with links to an interpreter, and pyvenv.cfg twice."""

WEIGHTS = Limits(plain=True, members=100_000, unpacked_bytes=256 << 30, ratio=100)
"""Weights: 70 billion parameters take 140 GB in FP16, and deflate saves little of them."""

ZIPPED_WEIGHTS = replace(WEIGHTS, zipped=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A file, folder or link of an archive.

    Attributes:
        path: Its path, relative and normalized.
        executable: True if its owner may execute it.
        content: Its content, readable until the next member is requested.
    """

    path: str
    kind: Literal["file", "folder", "link"]
    size: int
    executable: bool
    content: IO[bytes]


def members(source: IO[bytes], *, where: str, limits: Limits = ARTIFACT) -> Iterator[Member]:
    """Yield every member of an archive, in order; it is read once from start to end.

    Problems that do not prevent reading are raised together at the end, without yielding their members.
    Members must therefore not be trusted before the iteration ends.

    Raises:
        FleetError: The archive is damaged, unsafe or too large.
        OSError: The source cannot be read.
    """
    return _Archive(source, where, limits).members()


def tar_stream(source: IO[bytes], *, where: str) -> IO[bytes]:
    """Return the tar archive inside an artifact, within the limits of artifacts.

    Its reader gets a FleetError if the gzip stream is damaged or followed by anything.
    """
    return _Archive(source, where, ARTIFACT).tar_stream()


def unpack(
    source: IO[bytes], folder: Path, *, where: str, executables: bool = True, limits: Limits = ARTIFACT
) -> None:
    """Unpack an archive into a new folder, atomically.

    Raises:
        FleetError: The archive is damaged, unsafe or too large. No files are left.
        OSError: The source cannot be read, or the folder cannot be written. No files are left.
    """
    staging = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    staging.mkdir()
    try:
        for member in members(source, where=where, limits=limits):
            path = staging / member.path
            if member.kind == "folder":
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                shutil.copyfileobj(member.content, file, _PIECE_BYTES)
            path.chmod(0o755 if executables and member.executable else 0o644)
        staging.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def limit_problems(paths: Collection[str], *, size: int, where: str) -> tuple[Problem, ...]:
    """Return the problems of paths, and of a total size in bytes, that exceed the limits of an artifact."""
    report = Report(where)
    for what in filter(None, (_too_long(path, ARTIFACT) for path in paths)):
        report(LIMIT, what, fix=_FIXES[LIMIT])
    if len(paths) > ARTIFACT.members:
        report(LIMIT, f"more than {ARTIFACT.members} files and folders", fix=_FIXES[LIMIT])
    if size > ARTIFACT.unpacked_bytes:
        report(LIMIT, f"{size} bytes, more than {ARTIFACT.unpacked_bytes}", fix=_FIXES[LIMIT])
    return report.problems


class _Stream(io.RawIOBase):
    """The bytes that a function reads, up to a size."""

    def __init__(self, read: Callable[[int], bytes], size: int = sys.maxsize) -> None:
        super().__init__()
        self._read = read
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        size = min(len(buffer), self._left)
        piece = self._read(size) if size else b""
        buffer[: len(piece)] = piece
        self._left -= len(piece)
        return len(piece)

    def skip(self) -> None:
        while self._left:
            self._left -= len(self._read(min(self._left, _PIECE_BYTES)))


class _Entry(NamedTuple):
    name: str
    kind: _Kind
    size: int
    mode: int
    content: _Stream


class _Archive:
    def __init__(self, source: IO[bytes], where: str, limits: Limits) -> None:
        self._source = source
        self._limits = limits
        self._report = Report(where)
        self._deadline = time.monotonic() + limits.seconds
        self._packed_bytes = self._unpacked_bytes = 0
        self._is_folder: dict[str, bool] = {}

    def members(self) -> Iterator[Member]:
        entries = self._zip_entries() if self._limits.zipped else self._tar_entries()
        for count, entry in enumerate(entries, start=1):
            if count > self._limits.members:
                raise self._error(LIMIT, f"more than {self._limits.members} files and folders")
            path = posixpath.normpath(entry.name)
            if self._accepts(entry, path) and path != "." and entry.kind != "other":
                yield Member(
                    path=path,
                    kind=entry.kind,
                    size=entry.size,
                    executable=bool(entry.mode & stat.S_IXUSR),
                    content=io.BufferedReader(entry.content),
                )
            if len(self._report.problems) >= _MOST_PROBLEMS:
                break
            entry.content.skip()
        self._report.raise_if_any()

    def tar_stream(self) -> io.BufferedReader:
        packed = io.BufferedReader(_Stream(self._counted), _PACKED_BYTES)
        if self._limits.plain and not packed.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC):
            read: Callable[[int], bytes] = packed.read
        else:
            read = partial(self._inflated, packed, zlib.decompressobj(wbits=_GZIP))
        return io.BufferedReader(_Stream(partial(self._limited, read)), _PIECE_BYTES)

    # Members

    def _tar_entries(self) -> Iterator[_Entry]:
        stream = self.tar_stream()
        extended: dict[str, str] = {}
        while (block := self._exactly(stream, _BLOCK_BYTES)).strip(b"\0"):
            try:
                info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            except tarfile.HeaderError as error:
                raise self._error(DAMAGED, f"a damaged header: {error}") from None
            if info.type in _EXTENSIONS:
                extended.update(self._extension(stream, info))
                continue
            kind = _KINDS.get(info.type, "other")
            name, size = extended.get("path", info.name), int(extended.get("size", info.size))
            extended = {}
            if size < 0 or (size and kind != "file"):
                raise self._error(KIND, f"{size} bytes in a member that is not a file: {_shown(name)!r}")
            yield _Entry(name, kind, size, info.mode, self._content(stream.read, size))
            self._exactly(stream, -size % _BLOCK_BYTES)
        while rest := stream.read(_PIECE_BYTES):
            if rest.strip(b"\0"):
                raise self._error(TRAILING, "bytes after the end of the tar archive")

    def _extension(self, stream: IO[bytes], info: tarfile.TarInfo) -> dict[str, str]:
        """Return the path and the size in an extended header: POSIX.1-2001 ("pax"), or GNU's long names."""
        if not 0 <= info.size <= self._limits.header_bytes:
            raise self._error(LIMIT, f"an extended header of {info.size} bytes")
        content = self._exactly(stream, info.size)
        self._exactly(stream, -info.size % _BLOCK_BYTES)
        if info.type == tarfile.GNUTYPE_LONGNAME:
            return {"path": content.rstrip(b"\0").decode(errors="surrogateescape")}
        found: dict[str, str] = {}
        at = 0
        while at < len(content) and info.type != tarfile.GNUTYPE_LONGLINK:
            line = _LINE.match(content, at)
            end = at + int(line["length"]) if line else 0
            if line is None or content[end - 1 : end] != b"\n":
                raise self._error(DAMAGED, f"a malformed line at byte {at} of an extended header")
            key, value = line["key"].decode(errors="replace"), content[line.end() : end - 1]
            if key.startswith("GNU.sparse"):
                raise self._error(KIND, "a sparse file")
            if key in ("path", "size"):
                found[key] = value.decode(errors="surrogateescape")
            at = end
        if (found and info.type == tarfile.XGLTYPE) or not _SIZE.fullmatch(found.get("size", "0")):
            raise self._error(DAMAGED, "an extended header with a path or a size that is not one member's")
        return found

    def _zip_entries(self) -> Iterator[_Entry]:
        self._packed_bytes = self._source.seek(0, io.SEEK_END)
        with self._damage_named(), zipfile.ZipFile(self._source) as opened:
            for info in opened.infolist():
                name, mode = info.orig_filename, info.external_attr >> 16  # 0 unless written on Unix
                kind = _ZIP_KINDS.get(stat.S_IFMT(mode), "other")
                if kind != "link" and name.endswith("/"):
                    kind = "folder"
                if info.flag_bits & _ENCRYPTED or info.compress_type not in _ZIP_METHODS:
                    what = f"encrypted, or compressed by another method than deflate: {_shown(name)!r}"
                    raise self._error(KIND, what)
                with opened.open(info) as content:
                    read = partial(self._limited, content.read)
                    yield _Entry(name, kind, info.file_size, mode, self._content(read, info.file_size))

    def _accepts(self, entry: _Entry, path: str) -> bool:
        """Return True if a member is accepted; otherwise report why not."""
        folder = entry.kind == "folder"

        def refuse(check: Check, what: str) -> bool:
            self._report.at(_shown(entry.name))(check, what, fix=_FIXES[check])
            return False

        if entry.kind == "other" or (folder and entry.size):
            return refuse(KIND, "neither a file nor a folder")
        if entry.kind == "link" and not self._limits.links:
            return refuse(LINK, "a link")
        if not _is_safe(entry.name) or (not folder and (path == "." or entry.name.endswith("/"))):
            return refuse(NAME, "a path that is empty, absolute, goes up, or is not UTF-8")
        if (too_long := _too_long(path, self._limits)) is not None:
            return refuse(LIMIT, too_long)
        clash = self._clash(path, folder=folder)
        return clash is None or refuse(CLASH, clash)

    def _clash(self, path: str, *, folder: bool) -> str | None:
        """Record a path, and describe its conflict, if any."""
        above = path
        while above := posixpath.dirname(above):
            if not self._is_folder.setdefault(above, True):
                return "a path inside a file"
        if self._is_folder.get(path, folder) != folder:
            return "a file and a folder with the same path"
        if path in self._is_folder and not (folder or self._limits.links):
            return "a path that occurs twice"
        self._is_folder[path] = folder
        return None

    # Bytes

    def _counted(self, size: int) -> bytes:
        piece = self._source.read(size)
        self._packed_bytes += len(piece)
        return piece

    def _inflated(self, packed: IO[bytes], inflater: zlib._Decompress, size: int) -> bytes:
        """Return bytes of one gzip stream, which only zeros may follow. zlib verifies its checksum."""
        while not inflater.eof:
            data = inflater.unconsumed_tail or packed.read(_PACKED_BYTES)
            if piece := inflater.decompress(data, size):
                return piece
            if not data and not inflater.eof:
                raise self._error(DAMAGED, f"the gzip stream ends early, after {self._packed_bytes} bytes")
        rest = inflater.unused_data
        while rest and not rest.strip(b"\0"):
            rest = packed.read(_PACKED_BYTES)
        if rest:
            raise self._error(TRAILING, "bytes after the end of the gzip stream")
        return b""

    def _limited(self, read: Callable[[int], bytes], size: int) -> bytes:
        with self._damage_named():
            piece = read(size)
        limits = self._limits
        self._unpacked_bytes += len(piece)
        if self._unpacked_bytes > limits.unpacked_bytes:
            raise self._error(LIMIT, f"more than {limits.unpacked_bytes} bytes when unpacked")
        if self._unpacked_bytes > max(limits.ratio_from_bytes, self._packed_bytes * limits.ratio):
            raise self._error(LIMIT, f"more than {limits.ratio} times as many bytes when unpacked")
        if time.monotonic() > self._deadline:
            raise self._error(LIMIT, f"reading takes more than {limits.seconds} seconds")
        return piece

    def _content(self, read: Callable[[int], bytes], size: int) -> _Stream:
        def some(most: int) -> bytes:
            piece = read(most)
            if not piece:
                raise self._early()
            return piece

        return _Stream(some, size)

    def _exactly(self, stream: IO[bytes], size: int) -> bytes:
        content = stream.read(size)
        if len(content) < size:
            raise self._early()
        return content

    def _early(self) -> FleetError:
        return self._error(DAMAGED, "the archive ends early")

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGES as error:
            raise self._error(DAMAGED, f"the archive cannot be read: {error}") from None

    def _error(self, check: Check, what: str) -> FleetError:
        """Return the error of an archive that cannot be read any further."""
        self._report(check, what, fix=_FIXES[check])
        return FleetError(self._report.problems)


def _is_safe(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return bool(name) and "\0" not in name and name[0] != "/" and ".." not in name.split("/")


def _too_long(path: str, limits: Limits) -> str | None:
    """Describe a path that is too long or too deep; otherwise return None."""
    parts = path.split("/")
    for found, limit, what in (
        (max(len(part.encode()) for part in parts), limits.name_bytes, "a name of {} bytes"),
        (len(path.encode()), limits.path_bytes, "a path of {} bytes"),
        (len(parts) - 1, limits.depth, "a path in {} folders"),
    ):
        if found > limit:
            return f"{what.format(found)}, more than {limit}: {_shown(path)!r}"
    return None


def _shown(name: str) -> str:
    """Return a name for an error, short and without control characters."""
    printable = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name[:_SHOWN_CHARACTERS])
    return printable if len(name) <= _SHOWN_CHARACTERS else f"{printable}..."
