"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from pathlib import Path


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
