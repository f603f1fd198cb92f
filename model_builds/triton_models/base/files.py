"""Files: written completely or not at all, their SHA-256 digests, and those of a source folder."""

from __future__ import annotations

import errno
import fnmatch
import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from triton_models.base.checks import UNREADABLE


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: readers see the old content or the new one, whatever interrupts this.

    Missing folders are created, and an existing file keeps its permissions.

    Raises:
        OSError: The file cannot be written.
    """
    if not path.name:  # such as "." and "/"
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        temporary.write_bytes(content)
        if path.exists():
            shutil.copymode(path, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


_CHUNK_BYTES = 1 << 20


def file_digest(path: Path | str) -> str:
    """Return the hexadecimal digest of a file's content, using constant memory.

    Raises:
        OSError: The file cannot be read.
    """
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  a Path per file doubles the cost
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def digest_of(files: Mapping[str, str]) -> str:
    """Return one digest for many files."""
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()


LEFTOVERS: Final = (
    "__pycache__",
    "*.pyc",
    ".*_cache",
    "*.egg-info",
    ".DS_Store",
    ".git",
    ".ipynb_checkpoints",
)
"""Names of files and folders that tools leave behind, as shell patterns that gitignore reads the same way."""

_LEFTOVER = re.compile("|".join(map(fnmatch.translate, LEFTOVERS)))


def source_files(folder: Path, *, without: Collection[str] = ()) -> Iterator[Path]:
    """Return the files in a folder and below it, in the same order on every machine.

    `without` has paths in the folder, such as "cli/starter".

    Raises:
        OSError: A folder cannot be read.
    """
    return (Path(path) for _, path in _walk(str(folder), "", without))


def contents(folder: Path, *, without: Collection[str] = ()) -> dict[str, str]:
    """Return the digest of each file's content, by its path in the folder."""
    try:
        return {name: file_digest(path) for name, path in _walk(str(folder), "", without)}
    except OSError as error:
        what = f"a file of the source folder cannot be read: {error.strerror or error}"
        why = "builds use all of them, and a change to any of them changes the model"
        fix = "make it readable, or remove it"
        raise UNREADABLE.error(what=what, where=str(error.filename or folder), why=why, fix=fix) from None


def _walk(folder: str, prefix: str, without: Collection[str]) -> Iterator[tuple[str, str]]:
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if _LEFTOVER.fullmatch(entry.name) or f"{prefix}{entry.name}" in without:
            continue
        if entry.is_dir():
            yield from _walk(entry.path, f"{prefix}{entry.name}/", without)
        else:
            yield f"{prefix}{entry.name}", entry.path
