"""The page of each room of the constructs and of the toolkit. It is the docstring of the room's package."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import triton_fleet
import triton_models

ROOMS = [
    path.parent
    for package in (triton_fleet, triton_models)
    for path in sorted(Path(package.__file__).parent.glob("*/__init__.py"))
]
SCREEN = 24

every_room = pytest.mark.parametrize("room", ROOMS, ids=lambda room: f"{room.parent.name}.{room.name}")


def page(room: Path) -> str:
    return ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""


def neighbors(room: Path) -> set[str]:
    return {each.name for each in ROOMS if each.parent == room.parent and each != room}


def imported(room: Path) -> set[str]:
    """Return the other rooms of its package that a room imports."""
    found = set()
    for path in room.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
            elif isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            else:
                continue
            found |= {match[1] for name in names if (match := re.match(rf"{room.parent.name}\.(\w+)", name))}
    return found & neighbors(room)


@every_room
def test_a_page_fits_on_a_screen_and_names_every_import(room: Path) -> None:
    *_, last = page(room).splitlines()

    assert len(page(room).splitlines()) <= SCREEN
    assert set(re.findall(r"\b[a-z]+\b", last.removeprefix("Imports: "))) & neighbors(room) == imported(room)


@every_room
def test_a_page_names_no_module_that_is_not_there(room: Path) -> None:
    named = set(re.findall(r"`([a-z_]+)`", page(room)))
    there = {path.stem for path in room.iterdir()}
    code = "\n".join(path.read_text() for path in room.rglob("*.py"))

    assert [name for name in named - there if not re.search(rf"\b{name}\b", code)] == []
