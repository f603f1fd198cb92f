"""The page of each room of the toolkit, which is the docstring of its package."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import triton_models

TOOLKIT = Path(triton_models.__file__).parent
ROOMS = sorted(path.parent.name for path in TOOLKIT.glob("*/__init__.py"))
SCREEN = 24


def page(room: str) -> str:
    return ast.get_docstring(ast.parse((TOOLKIT / room / "__init__.py").read_text())) or ""


def imported(room: str) -> set[str]:
    """The other rooms that a room imports."""
    found = set()
    for path in (TOOLKIT / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
            elif isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            else:
                continue
            found |= {match[1] for name in names if (match := re.match(r"triton_models\.(\w+)", name))}
    return found & set(ROOMS) - {room}


@pytest.mark.parametrize("room", ROOMS)
def test_a_page_fits_on_a_screen_and_names_every_import(room: str) -> None:
    *_, last = page(room).splitlines()

    assert len(page(room).splitlines()) <= SCREEN
    assert set(re.findall(r"\b[a-z]+\b", last.removeprefix("Imports: "))) & set(ROOMS) == imported(room)


@pytest.mark.parametrize("room", ROOMS)
def test_a_page_names_no_module_that_is_not_there(room: str) -> None:
    named = set(re.findall(r"`([a-z_]+)`", page(room)))
    folder = TOOLKIT / room
    there = {path.stem for path in folder.iterdir()}
    code = "\n".join(path.read_text() for path in folder.rglob("*.py"))

    assert [name for name in named - there if not re.search(rf"\b{name}\b", code)] == []
