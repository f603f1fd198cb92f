"""Thousands of declared models: copies of two of this repository, each with names of its own."""

from __future__ import annotations

import re
from pathlib import Path

from triton_models.spec import models_folder

_COPIED = ("minilm", "resnet50")


def declare(models: Path, count: int) -> None:
    """Make so many model builds in a folder."""
    for number in range(count):
        _copy(models, _COPIED[number % len(_COPIED)], f"-{number}")


def _copy(models: Path, name: str, ending: str) -> None:
    """A copy of a model build, in which the model and its parts have the ending after the folder's name."""
    folder = models / f"{name}{ending}"
    folder.mkdir(parents=True)
    named = re.compile(rf'(?<="){name}(?=["_])')
    for path in (models_folder() / name).glob("*.py"):
        (folder / path.name).write_text(named.sub(folder.name, path.read_text()))
