"""The files of a source folder: all of them, but for what tools leave behind."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

LEFTOVERS: Final = (
    "__pycache__",
    "*.pyc",
    ".*_cache",
    "*.egg-info",
    ".DS_Store",
    ".git",
    ".ipynb_checkpoints",
)
"""The names of files and folders that tools leave behind: shell patterns, which gitignore reads alike."""


def source_files(folder: Path) -> Iterator[Path]:
    """The files in a folder and below it, in a fixed order.

    Raises:
        OSError: A folder cannot be read.
    """
    for path in sorted(folder.iterdir()):
        if any(fnmatch(path.name, pattern) for pattern in LEFTOVERS):
            continue
        if path.is_dir():
            yield from source_files(path)
        else:
            yield path
