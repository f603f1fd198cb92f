"""The SHA-256 digest of a file, and of many."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

_CHUNK_BYTES = 1 << 20


def file_digest(path: Path | str) -> str:
    """The digest of a file's content, hexadecimal, in constant memory.

    Raises:
        OSError: It cannot be read.
    """
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  of thousands a Path costs as much again
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def digest_of(files: Mapping[str, str]) -> str:
    """One digest of many files, whose digests are given by their names."""
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()
