"""The environment variables that declarations read, such as those with the address of weights."""

from __future__ import annotations

import re
from pathlib import Path

from triton_models.source_files import source_files

_READS = re.compile(r"""environ(?:\.get\(|\[)\s*["']([A-Za-z0-9_]+)["']""")


def variables_read(folder: Path) -> frozenset[str]:
    """The variables that the Python files in a folder, and below it, name when they read the environment."""
    if not folder.is_dir():
        return frozenset()
    return frozenset(
        name
        for path in source_files(folder)
        if path.suffix == ".py"
        for name in _READS.findall(path.read_text(encoding="utf-8", errors="replace"))
    )
