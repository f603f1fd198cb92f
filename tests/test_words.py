"""The wording of this project: docstrings begin with a verb or a noun phrase, and odd phrases do not return.

`codespell` checks single words, with docs/words.txt. This module checks phrases and the beginnings of
docstrings.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOT_FIRST = {"What", "Whether", "How", "Where", "When", "Why", "Who", "Which"}
ENTRY = re.compile(r"^ +\*{0,2}\w+: (.+)$", re.MULTILINE)
"""An argument, an attribute or an error in a docstring."""
PHRASES = re.compile(
    r"\b((?<!there )(is|are) none|(takes?|knows?) no|a (minute|second|month) (an?|each)|in so many words"
    r"|what becomes? of|gone through|for they|comes? to its end)\b"
)


def files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--", "*.py"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    found = [ROOT / line for line in listed.stdout.splitlines()]
    return [path for path in found if path.exists() and path != Path(__file__)]


def docstrings(source: str) -> Iterator[str]:
    """Yield the docstrings of a module, its classes and its functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def odd(source: str) -> list[str]:
    """Return odd beginnings of docstrings and of their entries, and lines with an odd phrase."""
    found = list(docstrings(source))
    first = [text.partition("\n")[0] for text in found]
    first += [entry for text in found for entry in ENTRY.findall(text)]
    beginnings = [line for line in first if line and re.split(r"\W", line)[0] in NOT_FIRST]
    return [*beginnings, *(line.strip() for line in source.splitlines() if PHRASES.search(line))]


@pytest.mark.parametrize(
    "source",
    [
        '"""What a build depends on."""',
        'def f():\n    """Whether it is."""',
        'def f(x):\n    """Return it.\n\n    Args:\n        x: What it is.\n    """',
        "# the rest is none",
        'x = "2 a minute each"',
    ],
)
def test_odd_words_are_found(source: str) -> None:
    assert odd(source)


def test_docstrings_and_phrases_are_plain() -> None:
    found = {str(path.relative_to(ROOT)): odd(path.read_text()) for path in files()}
    assert len(found) > 500
    assert {path: lines for path, lines in found.items() if lines} == {}
