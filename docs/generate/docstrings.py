"""Docstrings, read statically with griffe, as the parts of a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

_MADE = re.compile(
    r"field\((?:default_factory=lambda: |default=)(?P<value>.+)\)|field\(default_factory=(?P<factory>\w+)\)"
)
_EMPTY = {"dict": "{}", "list": "[]"}

ROOT = Path(__file__).resolve().parents[2]


def load(package: str) -> griffe.Object:
    """Read a package, without importing it."""
    sources = [str(ROOT / "constructs"), str(ROOT / "model_builds")]
    loader = griffe.GriffeLoader(search_paths=sources, docstring_parser="google")
    if package != "triton_models":
        loader.load("triton_models")
    return target(loader.load(package))


def public_names(module: griffe.Object) -> list[str]:
    """Return the names in `__all__`, in alphabetical order."""
    return sorted(text_of(name).strip("'\"") for name in module["__all__"].value.elements)


def fields(documented: griffe.Object) -> Iterator[str]:
    """Yield the lines of a table of the fields of a dataclass."""
    yield "| field | type | default | |"
    yield "|---|---|---|---|"
    for name, meaning in described(documented, "attributes").items():
        field = documented.members.get(name)
        if isinstance(field, griffe.Attribute):
            yield f"| `{name}` | {type_of(field.annotation)} | {default_of(field.value)} | {meaning} |"


def sections(documented: griffe.Object, kind: str) -> Iterator[Any]:
    """Yield the sections of a docstring of one kind, as griffe names them."""
    if documented.docstring is not None:
        yield from (section for section in documented.docstring.parsed if section.kind.value == kind)


def described(documented: griffe.Object, kind: str) -> dict[str, str]:
    """Return the descriptions in the sections of one kind, by name."""
    return {each.name: line(each.description) for part in sections(documented, kind) for each in part.value}


def prose(documented: griffe.Object) -> str:
    """Return a docstring without its sections."""
    return "\n\n".join(section.value for section in sections(documented, "text"))


def summary(documented: griffe.Object | griffe.Alias) -> str:
    """Return the first paragraph of a docstring in one line."""
    return prose(target(documented)).split("\n\n", maxsplit=1)[0].replace("\n", " ")


def target(member: griffe.Object | griffe.Alias) -> griffe.Object:
    """Return the object itself for an import of it."""
    return member.final_target if isinstance(member, griffe.Alias) else member


def type_of(annotation: object) -> str:
    """Return the cell of a table with a type."""
    return f"`{text_of(annotation)}`".replace("|", "\\|") if annotation is not None else ""


def default_of(value: object) -> str:
    """Return the cell of a table with a default; of a dataclass's field(), the value that it makes."""
    if value is None:
        return ""
    text = text_of(value)
    if made := _MADE.fullmatch(text):
        text = made["value"] or _EMPTY.get(made["factory"], f"{made['factory']}()")
    return f"`{text}`".replace("|", "\\|")


def text_of(expression: object) -> str:
    """Return an expression in one line."""
    return " ".join(str(expression).split())


def line(text: str) -> str:
    """Return a description as the cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
