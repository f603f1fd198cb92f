"""The files of a source folder, except those that tools leave behind."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from triton_models.base.checks import UNREADABLE
from triton_models.base.digests import file_digest

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
