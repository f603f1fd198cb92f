"""docs/reference: a page for each public name of triton_fleet, from its docstrings.

Read statically, without importing the CDK.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import griffe

from docs.generate.docstrings import (
    ROOT,
    default_of,
    described,
    fields,
    line,
    load,
    prose,
    public_names,
    sections,
    summary,
    target,
    type_of,
)

REFERENCE = ROOT / "docs" / "reference"
_GIVEN_BY_EVERY_CONSTRUCT = ("self", "scope", "construct_id")


def pages() -> Mapping[str, str]:
    """Every page by its file name."""
    package = load("triton_fleet")
    names = public_names(package)
    classes = {name: target(package[name]) for name in names}
    index = "\n".join(f"| [{name}]({name}.md) | {summary(each)} |" for name, each in classes.items())
    first = (
        f"# Reference of `triton_fleet`\n\n{summary(package)}\n\n| name | what it is |\n|---|---|\n{index}\n"
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
        prose(documented),
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
    meanings = described(init, "parameters")
    rows = [
        f"| `{parameter.name}` | {type_of(parameter.annotation)} | {default_of(parameter.default)} "
        f"| {meanings.get(parameter.name, '')} |"
        for parameter in init.parameters
        if parameter.name not in _GIVEN_BY_EVERY_CONSTRUCT
        and parameter.kind is not griffe.ParameterKind.var_keyword
    ]
    if rows:
        yield "## Arguments\n\n| argument | type | default | |\n|---|---|---|---|\n" + "\n".join(rows)
    for section in sections(init, "raises"):
        lines = [f"- `{each.annotation}`: {line(each.description)}" for each in section.value]
        yield "## Errors\n\n" + "\n".join(lines)


def _attributes(documented: griffe.Object) -> Iterator[str]:
    """Return the public attributes; those of a value are its arguments too."""
    meanings = described(documented, "attributes")
    if not meanings:
        return
    if "dataclass" in documented.labels:
        yield "## Fields\n\n" + "\n".join(fields(documented))
        return
    rows = [f"| `{name}` | {meaning} |" for name, meaning in meanings.items()]
    yield "## Attributes\n\n| attribute | |\n|---|---|\n" + "\n".join(rows)


def _methods(documented: griffe.Object) -> Iterator[str]:
    for member in map(target, documented.members.values()):
        if isinstance(member, griffe.Function) and not member.name.startswith("_"):
            taken = ", ".join(
                parameter.name for parameter in member.parameters if parameter.name not in ("self", "cls")
            )
            meanings = described(member, "parameters")
            lines = "\n".join(f"- `{name}`: {meaning}" for name, meaning in meanings.items())
            yield f"## {member.name}({taken})\n\n{prose(member)}" + (f"\n\n{lines}" if lines else "")


def _source(documented: griffe.Object) -> str:
    path = Path(documented.filepath if isinstance(documented.filepath, Path) else documented.filepath[0])
    return f"../../{path.relative_to(ROOT).as_posix()}"
