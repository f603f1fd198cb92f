"""The models that a revision declares, and which of them its build job makes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from triton_models.base.files import contents, digest_of
from triton_models.base.json_text import read_cdk_json
from triton_models.declare.reading import FORM_MARK

MODELS = Path("model_builds") / "models"
TOOLKIT = Path("model_builds") / "triton_models"

REQUIREMENTS = "requirements.txt"

# The library in a repository's requirements.
_LIBRARY = re.compile(r"^triton-fleet(?:\[[\w, -]*\])?\s*==\s*([^\s;#]+)", re.MULTILINE)
# The folder of `fleet init`, which links to the models.
_NOT_MAKING = ("cli/starter",)
# What stands for every model in the configuration.
_EVERY = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChange:
    """A model build that differs: its folder, or `folder:form`.

    `built` says whether the build job builds it afterwards, and `only_forms` that it builds its forms alone.
    """

    name: str
    what: Literal["added", "changed", "removed", "built", "not built"]
    built: bool = True
    only_forms: bool = False
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """The model builds of a checkout: a digest of each file, by folder and name."""

    folders: Mapping[str, Mapping[str, str]]
    built: tuple[str, ...]  # the models that the build job makes, as cdk.json says
    toolkit: str  # a digest of what builds them
    settings: Mapping[str, str] = field(default_factory=dict)  # the others of cdk.json, as text
    library: str = ""  # its version in requirements.txt; "" in a repository that contains it

    @property
    def count(self) -> int:
        """The number of models that the build job builds."""
        return len(self.folders) if _EVERY in self.built else len(self.built)

    @property
    def names(self) -> tuple[str, ...]:
        """The models that the build job builds, each a folder or `folder:form`."""
        return tuple(self.folders) if _EVERY in self.built else self.built

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms that the build job builds, each `folder:form`."""
        return tuple(name for name in self.built if FORM_MARK in name)

    def builds(self, name: str) -> bool:
        """Return True if the build job builds the form, or the BUILD of the folder."""
        return name in self.built or (_EVERY in self.built and FORM_MARK not in name)

    def builds_only_forms(self, folder: str) -> bool:
        """Return True if the build job builds forms of the folder, and not its BUILD."""
        return not self.builds(folder) and any(name.partition(FORM_MARK)[0] == folder for name in self.forms)

    @classmethod
    def read(cls, checkout: Path) -> Declared:
        """The model builds of a checkout, of which none is executed."""
        declarations = sorted((checkout / MODELS).glob("*/build.py"))
        toolkit = checkout / TOOLKIT
        configured = list(_configured(checkout))
        library = _library(checkout)
        return cls(
            folders={path.parent.name: contents(path.parent) for path in declarations},
            built=tuple(dict.fromkeys(str(name) for each in configured for name in _built(each))),
            toolkit=digest_of(contents(toolkit, without=_NOT_MAKING)) if toolkit.is_dir() else library,
            settings=dict(leaf for each in configured for leaf in _leaves(each)),
            library=library,
        )


def model_changes(before: Declared, after: Declared) -> list[ModelChange]:
    """The differences, by name."""
    return [
        change
        for name in sorted({*before.folders, *after.folders, *before.forms, *after.forms})
        if (change := _change(name, before, after)) is not None
    ]


def _change(name: str, before: Declared, after: Declared) -> ModelChange | None:
    folder, form, _ = name.partition(FORM_MARK)
    old, new = before.folders.get(folder), after.folders.get(folder)
    was, is_ = before.builds(name), after.builds(name)
    if form and was == is_:
        return None  # what changes in its folder is a row of the folder
    if old is None:
        return None if after.builds_only_forms(name) else ModelChange(name=name, what="added", built=is_)
    if new is None:
        return None if before.builds_only_forms(name) else ModelChange(name=name, what="removed", built=False)
    if old != new and not form:
        files = sorted(file for file in {*old, *new} if old.get(file) != new.get(file))
        only_forms = after.builds_only_forms(name)
        return ModelChange(
            name=name, what="changed", built=is_ or only_forms, only_forms=only_forms, files=tuple(files)
        )
    if was == is_:
        return None
    return ModelChange(name=name, what="built" if is_ else "not built", built=is_)


def _configured(checkout: Path) -> Iterator[Mapping[str, Any]]:
    """Yield each configuration of a fleet in cdk.json: an object with models, in itself or in its stages."""
    path = checkout / "cdk.json"
    for value in read_cdk_json(path)["context"].values() if path.exists() else ():
        if isinstance(value, Mapping) and any(_built(value)):
            yield value


def _library(checkout: Path) -> str:
    path = checkout / REQUIREMENTS
    found = _LIBRARY.search(path.read_text(encoding="utf-8")) if path.is_file() else None
    return found[1] if found else ""


def _built(configured: Mapping[str, Any]) -> list[Any]:
    """Return the models that a fleet builds, in any of its stages."""
    stages = configured.get("stages")
    own = (
        [each for each in stages.values() if isinstance(each, Mapping)] if isinstance(stages, Mapping) else []
    )
    lists = [each.get("models", configured.get("models")) for each in own or [configured]]
    return [name for each in lists if isinstance(each, list | str) for name in _listed(each)]


def _listed(models: list[Any] | str) -> list[Any]:
    return [name.strip() for name in models.split(",")] if isinstance(models, str) else models


def _leaves(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, each in value.items():
        if isinstance(each, Mapping):
            yield from _leaves(each, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", each if isinstance(each, str) else json.dumps(each)
