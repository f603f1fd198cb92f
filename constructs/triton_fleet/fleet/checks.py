"""Checks of the sources of a fleet's models."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import Problem

FLEET_MODELS = Check(id="fleet-models", source=FROM_ARGUMENTS)
"""A library builds models from a source folder, and a fleet has one library."""


def built_from_source(models: Collection[str] | None, *, has_source: bool, where: str) -> Iterator[Problem]:
    """Yield a problem if there are models to build, and no source folder.

    Args:
        models: The models to build; None for every model of the source folder.
        has_source: A source folder is given.
        where: The argument that names the models.
    """
    if models and not has_source:
        yield FLEET_MODELS.problem(
            what=f"there is no source for models {', '.join(models)}",
            where=where,
            expected="source, the folder that holds models/",
            why="the source folder holds their declarations",
            fix='give source="model_builds"',
        )


def one_library(given: Collection[str], *, where: str) -> Iterator[Problem]:
    """Yield a problem if a library comes with arguments of another one.

    Args:
        given: The arguments of a new library that stand next to the library.
        where: The argument that is the library.
    """
    if given:
        yield FLEET_MODELS.problem(
            what=f"library is given together with {' and '.join(given)}",
            where=where,
            expected="a library, or the source and the models of a new one",
            why="a library builds its own models",
            fix=f"give {' and '.join(given)} to the ModelLibrary",
        )
