"""The models that can be built here: some require more than the tests install."""

from __future__ import annotations

from typing import Any

import pytest

from triton_models.declare.requires import missing
from triton_models.spec import load_build, model_names


def lacking(name: str) -> list[str]:
    """Return the packages that this machine lacks for a model."""
    return missing(load_build(name).requires)


def buildable_names() -> list[str]:
    """The names of those that can be built."""
    return [name for name in model_names() if not lacking(name)]


def every_model() -> list[Any]:
    """Every model as a parameter; those that cannot be built are skipped, and the reason is said."""
    return [
        pytest.param(name, marks=pytest.mark.skip(reason=f"{name} needs {', '.join(lacks)}"))
        if (lacks := lacking(name))
        else name
        for name in model_names()
    ]
