"""`fleet pack`: pack a model into an immutable .tar.gz named after its content, with reproducible bytes.

The bytes depend only on names and contents, not on order, times, owners, modes, the process's umask, the path
of the input, the number of cores or the version of Python. Weights are stored without compression: SageMaker
requires gzip, and stored blocks are valid gzip. The bytes do not depend on a compression library unless
compression saves a megabyte. The archive then names the library in its header, and hence in its digest.

The digest covers the bytes, not the unpacked content. S3 verifies it on arrival, so an object of that name is
this file. If two versions of zlib give different files, their names differ.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from triton_models.artifact.archive import limit_problems, tar_stream
from triton_models.artifact.layout import ARCHIVE_SUFFIX, Layout, read_layout
from triton_models.artifact.pack import dali, stream
from triton_models.artifact.pack.content import Content, InMemory, OnDisk
from triton_models.artifact.pack.renaming import called_models, uniquely_named
from triton_models.artifact.roots import refused
from triton_models.base.checks import FROM_ARGUMENTS, UNREADABLE, Check
from triton_models.base.errors import Problem, raise_if_any
from triton_models.base.files import file_digest

ARTIFACT_NAME = Check(id="artifact-name", source=FROM_ARGUMENTS)
CHANGED = Check(id="artifact-changed", source=FROM_ARGUMENTS)
AMBIGUOUS = Check(
    id="archive-ambiguous", source="GNU tar 1.34 and Python's tarfile: archives that they read differently"
)
UNWRITABLE = Check(id="unwritable", source=FROM_ARGUMENTS)

DIGEST_LENGTH = 16

# A pipeline has a few kilobytes. Anything longer is not a pipeline, and is packed unchanged.
_MAX_PIPELINE_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 20
_FILE_NAME = re.compile(rf"(?P<model>.+)-(?P<digest>[0-9a-f]{{{DIGEST_LENGTH}}}){re.escape(ARCHIVE_SUFFIX)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A packed model.

    Attributes:
        digest: The first 16 hexadecimal digits of `sha256`.
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
        """Read an artifact from a file, and compare its name with its content."""
        match = _FILE_NAME.fullmatch(path.name)
        if match is None and path.is_file():
            what = f"{path.name!r} is not <model>-<{DIGEST_LENGTH} hexadecimal digits>{ARCHIVE_SUFFIX}"
            why = "an object overwritten under the same name may be served in both versions"
            fix = "run `fleet pack DIRECTORY -o DIR`, which names it after its content"
            raise ARTIFACT_NAME.error(what=what, where=str(path), why=why, fix=fix)
        layout = read_layout(path)
        if match is None:
            fix = f"run `fleet pack {path} -o DIR`, and pass the path it prints"
            raise ARTIFACT_NAME.error(what="a directory instead of an artifact", where=str(path), fix=fix)
        sha256 = file_digest(path)
        if not sha256.startswith(match["digest"]):
            what = f"the content's SHA-256 starts with {sha256[:DIGEST_LENGTH]}, not {match['digest']}"
            why = "the file was changed or copied incompletely"
            raise CHANGED.error(what=what, where=str(path), why=why, fix="pack the model again")
        if not _has_own_headers(path, layout):
            what = "its headers are not those that `fleet pack` writes"
            why = "the endpoint could unpack other files than those that were checked"
            fix = "unpack it, and pack the model again with `fleet pack`"
            raise AMBIGUOUS.error(what=what, where=str(path), why=why, fix=fix)
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


def pack(path: Path, *, output: Path) -> Artifact:
    """Pack a model that `check` accepts into `<model>-<digest>.tar.gz`.

    The file appears under its name only when complete.
    """
    layout = layout_to_pack(path, output=output)
    raise_if_any(packing_problems(layout))
    return write(layout, output=output)


def layout_to_pack(path: Path, *, output: Path) -> Layout:
    """Return the layout of a model to pack."""
    if path.is_file():
        fix = "pass the directory of a model; use `fleet check` to read archives"
        raise UNREADABLE.error(what="a file instead of a directory", where=str(path), fix=fix)
    if path.is_dir() and output.resolve().is_relative_to(path.resolve()):
        what = f"the output folder {str(output)!r} is inside the model"
        why = "the artifact would become part of the next one"
        raise UNWRITABLE.error(what=what, where=str(path), why=why, fix="choose another folder with -o")
    return read_layout(path)


def packing_problems(layout: Layout) -> list[Problem]:
    """Return the reasons not to pack a model that `check` may accept: a failed verification, or its size."""
    paths = [*layout.files, *layout.directories]
    limits = limit_problems(paths, size=sum(layout.files.values()), where=layout.where)
    return [*refused(Path(layout.where)), *limits]


def write(layout: Layout, *, output: Path) -> Artifact:
    """Write the artifact of a model without problems."""
    contents = _contents(layout)
    if called_models(layout):
        layout = uniquely_named(layout, contents)
        contents = _contents(layout)
    compress = stream.worth_compressing(contents)
    try:
        output.mkdir(parents=True, exist_ok=True)
        with _replacing(output) as (temporary, file):
            parts = _parts(layout, contents, compress=compress)
            written = stream.write(parts, file, comment=stream.COMPRESSOR if compress else "")
            file.close()  # some file systems report only now that they are full
            digest = written.sha256[:DIGEST_LENGTH]
            path = output / f"{layout.model}-{digest}{ARCHIVE_SUFFIX}"
            temporary.replace(path)
    except OSError as error:
        what = f"cannot write the artifact: {error.strerror or error}"
        fix = "choose another folder with -o, or free some space"
        raise UNWRITABLE.error(what=what, where=str(error.filename or output), fix=fix) from None
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
    root = Path(layout.where).resolve()
    return {name: _content(layout, name, root=root) for name in layout.files}


def _content(layout: Layout, name: str, *, root: Path) -> Content:
    if name in layout.texts:
        return InMemory(layout.texts[name])  # the checked content, even if the file has changed since
    content = OnDisk.of(layout.sources[name], root=root)
    if name.endswith(dali.SUFFIX) and content.size <= _MAX_PIPELINE_BYTES:
        return InMemory(dali.without_origin(content.read(content.size, offset=0)))
    return content


def _parts(
    layout: Layout, contents: Mapping[str, Content], *, compress: frozenset[str]
) -> Iterator[stream.Part]:
    sizes = {name: content.size for name, content in contents.items()}
    for frame, name in stream.frames(layout.directories, sizes):
        yield from stream.parts_of(InMemory(frame))
        if name is not None:
            yield from stream.parts_of(contents[name], compress=name in compress)


def _has_own_headers(path: Path, layout: Layout) -> bool:
    """Return True if everything in an archive but its contents is as `write` would write it."""
    with path.open("rb") as file:
        if not stream.HEADER.match(file.read(_CHUNK_BYTES)):
            return False
        file.seek(0)
        content = tar_stream(file, where=str(path))
        for frame, name in stream.frames(layout.directories, layout.files):
            if content.read(len(frame)) != frame:
                return False
            left = layout.files[name] if name is not None else 0
            while left:
                left -= len(content.read(min(left, _CHUNK_BYTES)))
        return content.read(1) == b""
