"""`fleet pack`: pack a model into an immutable .tar.gz named after its content, with reproducible bytes.

The bytes depend only on names and contents, not on order, times, owners, modes, the process's umask, the path
of the input, the number of cores or the version of Python. Weights are stored without compression: SageMaker
requires gzip, and stored blocks are valid gzip. The bytes do not depend on a compression library unless
compression saves a megabyte. The archive then names the library in its header, and hence in its digest.

The digest covers the bytes, not the unpacked content. S3 verifies it on arrival, so an object of that name is
this file. If two versions of zlib give different files, their names differ.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from triton_models.artifact.archive import limit_problems
from triton_models.artifact.layout import ARCHIVE_SUFFIX, Layout, read_layout
from triton_models.artifact.refusal import refused
from triton_models.base.digests import file_digest
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.base.outcome import progress
from triton_models.check.check import check_layout
from triton_models.pack import dali, stream, tar
from triton_models.pack.called import called_models, uniquely_named
from triton_models.pack.choice import worth_compressing
from triton_models.pack.content import Content, InMemory, OnDisk, read
from triton_models.pack.copies import copies
from triton_models.pack.deflate import COMPRESSOR

DIGEST_LENGTH = 16

# A pipeline has a few kilobytes. Anything longer is not a pipeline, and is packed unchanged.
_MAX_PIPELINE_BYTES = 64 << 20
_FILE_NAME = re.compile(rf"(?P<model>.+)-(?P<digest>[0-9a-f]{{{DIGEST_LENGTH}}}){re.escape(ARCHIVE_SUFFIX)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A packed model.

    Attributes:
        model: The model's name.
        digest: The first 16 hexadecimal digits of `sha256`.
        path: The file.
        size: Its size in bytes.
        sha256: The SHA-256 of the file, in hexadecimal.
        build: The content of its build.json, with its sources and its target. Empty without one.
    """

    model: str
    digest: str
    path: Path
    size: int
    sha256: str
    build: dict[str, Any]

    @property
    def name(self) -> str:
        """Its name in a repository."""
        return f"{self.model}-{self.digest}{ARCHIVE_SUFFIX}"

    @classmethod
    def read(cls, path: Path) -> Artifact:
        """Read an artifact from a file, and compare its name with its content.

        Raises:
            FleetError: The file is not an artifact, cannot be read, or its content contradicts its name.
        """
        match = _FILE_NAME.fullmatch(path.name)
        if match is None and path.is_file():
            raise FleetError.of(
                what=f"{path.name!r} is not the name of an artifact",
                where=str(path),
                expected=f"<model>-<{DIGEST_LENGTH} hexadecimal digits>{ARCHIVE_SUFFIX}",
                why="an object overwritten under the same name may be served in both versions",
                fix="run `fleet pack DIRECTORY -o DIR`, which names it after its content",
                rule="artifact-name",
            )
        layout = read_layout(path)
        if match is None:
            raise FleetError.of(
                what="a directory instead of an artifact",
                where=str(path),
                expected=f"a {ARCHIVE_SUFFIX} written by `fleet pack`",
                fix=f"run `fleet pack {path} -o DIR`, and pass the path it prints",
                rule="artifact-name",
            )
        sha256 = file_digest(path)
        if not sha256.startswith(match["digest"]):
            raise FleetError.of(
                what=f"the content's SHA-256 starts with {sha256[:DIGEST_LENGTH]}",
                where=str(path),
                expected=f"{match['digest']}, as in the name",
                why="the file was changed or copied incompletely",
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
        """Return the artifact as JSON-ready data."""
        return {**asdict(self), "path": str(self.path)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """The outcome of `fleet pack`."""

    artifacts: tuple[Artifact, ...]
    exit_code: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return every artifact as JSON-ready data."""
        return {"artifacts": [artifact.as_dict() for artifact in self.artifacts]}

    def lines(self) -> Iterator[str]:
        """Yield the artifacts' paths, one per line."""
        for artifact in self.artifacts:
            yield str(artifact.path)


def pack(path: Path, *, output: Path) -> Artifact:
    """Pack a model into `<model>-<digest>.tar.gz`.

    The file is written only if `check` accepts the model and no verification refused it. It appears under
    its name only when complete.

    Args:
        path: An artifact root or a bare model directory.
        output: The folder to write to, created if missing.

    Raises:
        FleetError: `check` or a verification refuses the model, or the file cannot be written.
    """
    return _write(_accepted([path], output=output)[0], output=output)


def run(arguments: argparse.Namespace) -> Packed:
    """Run `fleet pack PATH... -o DIR` for all models or none."""
    artifacts = []
    for layout in _accepted(arguments.paths, output=arguments.output):
        for each in copies(layout, arguments.copies) if arguments.copies else [layout]:
            progress(f"packing {each.model} ({sum(each.files.values()) / 1e6:.1f} MB)")
            artifacts.append(_write(each, output=arguments.output))
    return Packed(artifacts=tuple(artifacts))


def _accepted(paths: Iterable[Path], *, output: Path) -> list[Layout]:
    """Return the layouts of the paths if `check` accepts all of them."""
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
            problems.extend(refused(path))
            problems.extend(_limits(layout))
            layouts.append(layout)
    raise_if_any(problems)
    return layouts


def _limits(layout: Layout) -> Iterator[Problem]:
    paths = [*layout.files, *layout.directories]
    return limit_problems(paths, size=sum(layout.files.values()), where=layout.where)


def _refuse_as_input(path: Path, *, output: Path) -> None:
    if path.is_file():
        raise FleetError.of(
            what="a file instead of a directory",
            where=str(path),
            expected="a built model or a Triton model directory",
            fix="pass the directory; use `fleet check` to read archives",
            rule="unreadable",
        )
    if path.is_dir() and output.resolve().is_relative_to(path.resolve()):
        raise FleetError.of(
            what=f"the output folder {str(output)!r} is inside the model",
            where=str(path),
            expected="a folder outside the model",
            why="the artifact would become part of the next one",
            fix="choose another folder with -o",
        )


def _write(layout: Layout, *, output: Path) -> Artifact:
    contents = _contents(layout)
    if called_models(layout):
        layout = uniquely_named(layout, contents)
        contents = _contents(layout)
    compress = worth_compressing(contents)
    try:
        output.mkdir(parents=True, exist_ok=True)
        with _replacing(output) as (temporary, file):
            parts = _parts(layout, contents, compress=compress)
            written = stream.write(parts, file, comment=COMPRESSOR if compress else "")
            file.close()  # some file systems report only now that they are full
            digest = written.sha256[:DIGEST_LENGTH]
            path = output / f"{layout.model}-{digest}{ARCHIVE_SUFFIX}"
            temporary.replace(path)
    except OSError as error:
        raise FleetError.of(
            what=f"cannot write the artifact: {error.strerror or error}",
            where=str(error.filename or output),
            expected="a writable folder with space for the model",
            fix="choose another folder with -o, or free some space",
            rule="unwritable",
        ) from None
    return Artifact(
        model=layout.model,
        digest=digest,
        path=path,
        size=written.size,
        sha256=written.sha256,
        build=layout.build(),
    )


@contextlib.contextmanager
def _replacing(folder: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Yield a temporary file in a folder, and remove it at the end unless it was renamed."""
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=".packing-", suffix=ARCHIVE_SUFFIX)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o644)  # mkstemp's mode is for secrets; others may read an artifact
            yield temporary, file
    finally:
        temporary.unlink(missing_ok=True)


def _contents(layout: Layout) -> dict[str, Content]:
    """Return the content to pack for each file."""
    root = Path(layout.where).resolve()
    return {name: _content(layout, name, root=root) for name in layout.files}


def _content(layout: Layout, name: str, *, root: Path) -> Content:
    if name in layout.texts:
        return InMemory(layout.texts[name])  # the checked content, even if the file has changed since
    content = OnDisk.of(layout.sources[name], root=root)
    if name.endswith(dali.SUFFIX) and content.size <= _MAX_PIPELINE_BYTES:
        return InMemory(dali.without_origin(read(content)))
    return content


def _parts(
    layout: Layout, contents: Mapping[str, Content], *, compress: frozenset[str]
) -> Iterator[stream.Part]:
    """Yield the parts of the archive in order."""
    before = b""  # padding of the previous file, joined with the next header
    for name in sorted({*layout.directories, *layout.files}):
        if name in layout.directories:
            before += tar.folder_header(name)
            continue
        content = contents[name]
        yield from stream.parts_of(InMemory(before + tar.file_header(name, content.size)))
        yield from stream.parts_of(content, compress=name in compress)
        before = tar.padding(content.size)
    yield from stream.parts_of(InMemory(before + tar.END))
