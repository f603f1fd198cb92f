"""docs/reference: a page for each public name of triton_fleet, from its docstrings.

Read statically, without importing the CDK.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
_GIVEN_BY_EVERY_CONSTRUCT = ("self", "scope", "construct_id")


def pages() -> Mapping[str, str]:
    """Every page by its file name."""
    sources = [str(ROOT / "constructs"), str(ROOT / "model_builds")]
    loader = griffe.GriffeLoader(search_paths=sources, docstring_parser="google")
    loader.load("triton_models")
    package = loader.load("triton_fleet")
    names = sorted(_text(name).strip("'\"") for name in package["__all__"].value.elements)
    classes = {name: _target(package[name]) for name in names}
    index = "\n".join(f"| [{name}]({name}.md) | {_summary(each)} |" for name, each in classes.items())
    first = (
        f"# Reference of `triton_fleet`\n\n{_summary(package)}\n\n| name | what it is |\n|---|---|\n{index}\n"
    )
    return {"README.md": first, **{f"{name}.md": _page(name, each, names) for name, each in classes.items()}}


def write() -> None:
    """Write the pages, and remove those of names that are gone."""
    REFERENCE.mkdir(exist_ok=True)
    current = pages()
    for stale in REFERENCE.glob("*.md"):
        if stale.name not in current:
            stale.unlink()
    for name, content in current.items():
        (REFERENCE / name).write_text(content, encoding="utf-8")


def _page(name: str, documented: griffe.Object, names: Sequence[str]) -> str:
    parts = [
        f"# {name}",
        _prose(documented),
        *_bases(documented, names),
        *_arguments(documented),
        *_attributes(documented),
    ]
    parts += _methods(documented)
    parts.append(f"Source: [{documented.relative_filepath.name}]({_source(documented)})")
    return "\n\n".join(part for part in parts if part) + "\n"


def _bases(documented: griffe.Object, names: Sequence[str]) -> Iterator[str]:
    """Link to the pages of the public base classes."""
    inherited = [str(each) for each in getattr(documented, "bases", ()) if str(each) in names]
    if inherited:
        yield f"Has everything of {' and '.join(f'[{each}]({each}.md)' for each in inherited)} as well."


def _arguments(documented: griffe.Object) -> Iterator[str]:
    """The table of what a construct takes."""
    init = documented.members.get("__init__")
    if not isinstance(init, griffe.Function) or init.docstring is None:
        return
    described = _described(init, "parameters")
    rows = [
        f"| `{parameter.name}` | {_type(parameter.annotation)} | {_default(parameter.default)} "
        f"| {described.get(parameter.name, '')} |"
        for parameter in init.parameters
        if parameter.name not in _GIVEN_BY_EVERY_CONSTRUCT
        and parameter.kind is not griffe.ParameterKind.var_keyword
    ]
    if rows:
        yield "## Arguments\n\n| argument | type | default | |\n|---|---|---|---|\n" + "\n".join(rows)
    for section in _sections(init, "raises"):
        lines = [f"- `{each.annotation}`: {_line(each.description)}" for each in section.value]
        yield "## Errors\n\n" + "\n".join(lines)


def _attributes(documented: griffe.Object) -> Iterator[str]:
    """Return the public attributes; those of a value are its arguments too."""
    described = _described(documented, "attributes")
    if not described:
        return
    if "dataclass" not in documented.labels:
        rows = [f"| `{name}` | {meaning} |" for name, meaning in described.items()]
        yield "## Attributes\n\n| attribute | |\n|---|---|\n" + "\n".join(rows)
        return
    rows = []
    for name, meaning in described.items():
        field = documented.members.get(name)
        if isinstance(field, griffe.Attribute):
            kind, default = _type(field.annotation), _default(field.value)
            rows.append(f"| `{name}` | {kind} | {default} | {meaning} |")
    yield "## Fields\n\n| field | type | default | |\n|---|---|---|---|\n" + "\n".join(rows)


def _methods(documented: griffe.Object) -> Iterator[str]:
    for member in map(_target, documented.members.values()):
        if isinstance(member, griffe.Function) and not member.name.startswith("_"):
            taken = ", ".join(
                parameter.name for parameter in member.parameters if parameter.name not in ("self", "cls")
            )
            described = _described(member, "parameters")
            lines = "\n".join(f"- `{name}`: {meaning}" for name, meaning in described.items())
            yield f"## {member.name}({taken})\n\n{_prose(member)}" + (f"\n\n{lines}" if lines else "")


def _sections(documented: griffe.Object, kind: str) -> Iterator[Any]:
    if documented.docstring is not None:
        yield from (section for section in documented.docstring.parsed if section.kind.value == kind)


def _described(documented: griffe.Object, kind: str) -> dict[str, str]:
    return {each.name: _line(each.description) for part in _sections(documented, kind) for each in part.value}


def _prose(documented: griffe.Object) -> str:
    return "\n\n".join(section.value for section in _sections(documented, "text"))


def _summary(documented: griffe.Object | griffe.Alias) -> str:
    return _prose(_target(documented)).split("\n\n", maxsplit=1)[0].replace("\n", " ")


def _target(member: griffe.Object | griffe.Alias) -> griffe.Object:
    return member.final_target if isinstance(member, griffe.Alias) else member


def _source(documented: griffe.Object) -> str:
    path = Path(documented.filepath if isinstance(documented.filepath, Path) else documented.filepath[0])
    return f"../../{path.relative_to(ROOT).as_posix()}"


def _type(annotation: object) -> str:
    return f"`{_text(annotation)}`".replace("|", "\\|") if annotation is not None else ""


def _default(value: object) -> str:
    return f"`{_text(value)}`".replace("|", "\\|") if value is not None else ""


def _text(expression: object) -> str:
    return " ".join(str(expression).split())


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
