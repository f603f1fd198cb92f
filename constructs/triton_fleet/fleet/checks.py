"""Checks of the sources of a fleet's models."""

from __future__ import annotations

from collections.abc import Collection

from triton_models.base.checks import FROM_ARGUMENTS, Check, Report

FLEET_MODELS = Check(id="fleet-models", source=FROM_ARGUMENTS)
"""A library builds models from a source folder, and a fleet has one library."""


def built_from_source(report: Report, models: Collection[str] | None, *, has_source: bool) -> None:
    """Report problems if there are models to build, and no source folder."""
    if models and not has_source:
        report(
            FLEET_MODELS,
            f"there is no source for models {', '.join(models)}",
            fix='give source="model_builds"',
            why="the source folder holds their declarations",
        )


def one_library(report: Report, given: Collection[str]) -> None:
    """Report problems if a library comes with arguments of another one."""
    if given:
        report(
            FLEET_MODELS,
            f"library is given together with {' and '.join(given)}",
            fix=f"give {' and '.join(given)} to the ModelLibrary",
            why="a library builds its own models",
        )
