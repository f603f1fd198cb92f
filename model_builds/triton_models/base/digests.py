"""SHA-256 digests of one file or many."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

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
