"""The Python code on docs/bring_models.md."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "bring_models.md").read_text()
BLOCKS: list[str] = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def block_with(words: str) -> str:
    """Return the first block that has these words."""
    return next(code for code in BLOCKS if words in code)
