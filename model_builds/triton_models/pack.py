"""One immutable .tar.gz of a model, named after its content: the same input gives the same bytes anywhere.

The bytes depend on names and contents only. Order, times, owners, modes, the process's umask and the path of
the input do not enter. What does: the zlib that Python was built with, whose compressed form may differ.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import os
import re
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from triton_models.check import check_layout
from triton_models.errors import FleetError, Problem, raise_if_any
from triton_models.layout import ARCHIVE_SUFFIX, Layout, read_layout
from triton_models.outcome import progress

DIGEST_LENGTH = 16

# Weights hardly compress, whatever the level; the lowest one is by far the fastest.
_LEVEL = 1
_CHUNK_BYTES = 1 << 20
_FILE_NAME = re.compile(rf"(?P<model>.+)-(?P<digest>[0-9a-f]{{{DIGEST_LENGTH}}}){re.escape(ARCHIVE_SUFFIX)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A packed model.

    Attributes:
        model: The model's name.
        digest: The first 16 hexadecimal digits of `sha256`.
        path: The file.
        size: Its size in bytes.
        sha256: The SHA-256 of the file, hexadecimal.
        build: What it was built from and for: its build.json. Empty without one.
    """

    model: str
    digest: str
    path: Path
    size: int
    sha256: str
    build: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> Artifact:
        """The artifact in a file, whose name and content are compared.

        Raises:
            FleetError: It is not an artifact, cannot be read, or its content is not what its name says.
        """
        match = _FILE_NAME.fullmatch(path.name)
        if match is None and path.is_file():
            raise FleetError.of(
                what=f"{path.name!r} is not the name of an artifact",
                where=str(path),
                expected=f"<model>-<{DIGEST_LENGTH} hexadecimal digits>{ARCHIVE_SUFFIX}",
                why="an object that is overwritten under its old name may be served in both versions",
                fix="`fleet pack DIRECTORY -o DIR` names it after its content",
                rule="artifact-name",
            )
        layout = read_layout(path)
        if match is None:
            raise FleetError.of(
                what="a directory where an artifact is wanted",
                where=str(path),
                expected=f"a {ARCHIVE_SUFFIX} made by `fleet pack`",
                fix=f"`fleet pack {path} -o DIR`, and give the path it prints",
                rule="artifact-name",
            )
        sha256 = _hash(path)
        if not sha256.startswith(match["digest"]):
            raise FleetError.of(
                what=f"the content's SHA-256 begins with {sha256[:DIGEST_LENGTH]}",
                where=str(path),
                expected=f"{match['digest']}, as the name says",
                why="the file was changed, or not copied whole",
                fix="pack the model again",
                rule="artifact-changed",
            )
        return cls(
            model=match["model"],
            digest=match["digest"],
            path=path,
            size=path.stat().st_size,
            sha256=sha256,
            build=layout.build(),
        )

    def as_dict(self) -> dict[str, Any]:
        """The artifact as JSON-ready data."""
        return {**asdict(self), "path": str(self.path)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """The outcome of `fleet pack`."""

    artifacts: tuple[Artifact, ...]
    exit_code: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Every artifact."""
        return {"artifacts": [artifact.as_dict() for artifact in self.artifacts]}

    def lines(self) -> Iterator[str]:
        """The artifacts' paths, one a line."""
        for artifact in self.artifacts:
            yield str(artifact.path)


def pack(path: Path, *, output: Path) -> Artifact:
    """Pack a model into `<model>-<digest>.tar.gz`.

    Nothing is written unless `check` accepts the model; the file appears under its name only when whole.

    Args:
        path: An artifact root or a bare model directory.
        output: The folder to write into; made if missing.

    Raises:
        FleetError: `check` refuses the model, or the file cannot be written.
    """
    return _write(_accepted([path], output=output)[0], output=output)


def run(arguments: argparse.Namespace) -> Packed:
    """`fleet pack PATH... -o DIR`: all of them, or none."""
    artifacts = []
    for layout in _accepted(arguments.paths, output=arguments.output):
        progress(f"packing {layout.model} ({sum(layout.files.values()) / 1e6:.1f} MB)")
        artifacts.append(_write(layout, output=arguments.output))
    return Packed(artifacts=tuple(artifacts))


def _accepted(paths: Iterable[Path], *, output: Path) -> list[Layout]:
    """What is at the paths, if `check` accepts all of it."""
    layouts: list[Layout] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            _refuse_as_input(path, output=output)
            layout = read_layout(path)
        except FleetError as error:
            problems.extend(error.problems)
        else:
            problems.extend(check_layout(layout))
            layouts.append(layout)
    raise_if_any(problems)
    return layouts


def _refuse_as_input(path: Path, *, output: Path) -> None:
    if path.is_file():
        raise FleetError.of(
            what="a file where a directory is wanted",
            where=str(path),
            expected="a built model, or a Triton model directory",
            fix="`fleet check` reads archives; `fleet pack` makes them from directories",
            rule="unreadable",
        )
    if path.is_dir() and output.resolve().is_relative_to(path.resolve()):
        raise FleetError.of(
            what=f"the output folder {str(output)!r} is inside the model",
            where=str(path),
            expected="a folder outside the model",
            why="the artifact would become part of the next one",
            fix="give another folder with -o",
        )


def _write(layout: Layout, *, output: Path) -> Artifact:
    try:
        output.mkdir(parents=True, exist_ok=True)
        with _replacing(output) as (temporary, file):
            writer = _HashingWriter(file)
            with gzip.GzipFile(
                filename="", mode="wb", compresslevel=_LEVEL, fileobj=writer, mtime=0
            ) as compressed:
                _write_members(layout, compressed)
            file.flush()
            sha256 = writer.sha256.hexdigest()
            path = output / f"{layout.model}-{sha256[:DIGEST_LENGTH]}{ARCHIVE_SUFFIX}"
            temporary.replace(path)
    except OSError as error:
        raise FleetError.of(
            what=f"cannot write the artifact: {error.strerror or error}",
            where=str(error.filename or output),
            expected="a folder that can be written to, with room for the model",
            fix="give another folder with -o, or make room",
            rule="unwritable",
        ) from None
    return Artifact(
        model=layout.model,
        digest=sha256[:DIGEST_LENGTH],
        path=path,
        size=writer.size,
        sha256=sha256,
        build=layout.build(),
    )


@contextlib.contextmanager
def _replacing(folder: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """A temporary file in a folder, which is gone at the end unless it was renamed."""
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=".packing-", suffix=ARCHIVE_SUFFIX)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o644)  # mkstemp's mode is for secrets; others may read an artifact
            yield temporary, file
    finally:
        temporary.unlink(missing_ok=True)


def _write_members(layout: Layout, stream: gzip.GzipFile) -> None:
    # PAX stores long names and large files, and its headers hold nothing else here.
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT, bufsize=_CHUNK_BYTES) as archive:
        for name in sorted({*layout.directories, *layout.files}):
            info = tarfile.TarInfo(name)
            if name in layout.directories:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(info)
                continue
            info.mode = 0o644
            with layout.sources[name].open("rb") as content:
                info.size = os.fstat(content.fileno()).st_size
                archive.addfile(info, content)


class _HashingWriter:
    """A file that knows the SHA-256 and the size of what went through it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.sha256 = hashlib.sha256()
        self.size = 0
        self._file = file

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        self.size += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
