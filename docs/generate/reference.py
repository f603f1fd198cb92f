"""The reference: a page per room of the constructs, one of the client and one of declarations.

The pages name the objects; mkdocstrings fills in the docstrings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import griffe

from docs.generate import ROOT

_SECTIONS = {
    "declare.declaration": "The declaration",
    "declare.models": "Models",
    "declare.tensors": "Tensors",
    "declare.backends": "Backends",
    "declare.scheduling": "Serving",
    "declare.weights": "Weights",
    "declare.environments": "Environments of Python models",
    "declare.job": "Models that no class can declare",
}
"""The modules behind `triton_models.spec`, in the order of the page."""
_DECLARATIONS = """\
# Declarations

The classes of a `build.py`. Import them from `triton_models.spec`. [Bring your model](../bring_models.md) has
a complete declaration.
"""
_CLIENT = """\
# The client

[Call a model](../clients.md) has examples.
"""


def rooms() -> Mapping[str, str]:
    """Return the page of each room of the constructs, by the room's name."""
    package = _load("triton_fleet")
    found: dict[str, list[str]] = {}
    for name, path in [*_public(package), *_public(package["app"])]:
        room = path.split(".")[1]
        if path.startswith("triton_fleet.") and name != "FleetConfig":  # which has a page of its own
            found.setdefault(room, []).append(path)
    return {room: _room(package[room], paths) for room, paths in sorted(found.items())}


def declarations() -> str:
    """Return the page of the names in `triton_models.spec`."""
    package = _load("triton_models")
    public = dict(_public(package["spec"]))
    parts = [_DECLARATIONS]
    for module, title in _SECTIONS.items():
        path = f"triton_models.{module}"
        objects = [
            package[each.removeprefix("triton_models.")]
            for each in public.values()
            if each.startswith(f"{path}.")
        ]
        named = sorted((each for each in objects if each.has_docstring), key=lambda each: each.lineno or 0)
        parts += [
            f"## {title}\n",
            *(f"::: {each.path}\n    options: {{heading_level: 3}}\n" for each in named),
        ]
    return "\n".join(parts)


def client() -> str:
    """Return the page of the clients, which come first, and of what belongs to them."""
    package = _load("triton_models")
    members = [package[path.partition(".")[2]] for _, path in _public(package["client"])]
    shown = [each for each in members if isinstance(each, griffe.Class | griffe.Function)]
    return "\n".join([_CLIENT, *map(_block, sorted(shown, key=_clients_first))])


def _clients_first(each: griffe.Object | griffe.Alias) -> tuple[bool, bool]:
    return each.name != "Client", "Client" not in each.name


def _load(package: str) -> griffe.Object:
    loaded = griffe.load(package, search_paths=[ROOT / "constructs", ROOT / "model_builds"])
    assert isinstance(loaded, griffe.Object)  # noqa: S101
    return loaded


def _public(module: griffe.Object | griffe.Alias) -> Iterator[tuple[str, str]]:
    """Yield the names in `__all__`, and the path of the object behind each."""
    for name in module.exports or ():
        member = module.members[str(name)]
        yield str(name), member.target_path if isinstance(member, griffe.Alias) else member.path


def _room(room: griffe.Object | griffe.Alias, paths: list[str]) -> str:
    members = [room.package[each.partition(".")[2]] for each in sorted(paths)]
    text = room.docstring.value if room.docstring is not None else ""
    first = text.partition("\n\n")[0]
    return "\n".join([f"# {room.name.capitalize()}\n", f"{first}\n", *map(_block, members)])


def _block(each: griffe.Object | griffe.Alias) -> str:
    """Return the block that mkdocstrings fills in; an enumeration has all of its members."""
    is_enumeration = isinstance(each, griffe.Class) and "Enum" in map(str, each.bases)
    return f"::: {each.path}\n" + ("    options: {show_if_no_docstring: true}\n" if is_enumeration else "")
