"""A source folder of declared models, for what builds them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from aws_cdk import App, Stack
from aws_cdk.assertions import Template

from tests.triton_models import declared_models
from triton_fleet import ModelBuildProject, ModelRepository

Build = Callable[..., ModelBuildProject]
"""Makes a build job, by its id and its arguments."""


def build_in(stack: Stack, **given: Any) -> Build:
    """Makes build jobs of `minilm` in a stack, with these arguments unless others are given."""

    def make(construct_id: str = "Builds", **arguments: Any) -> ModelBuildProject:
        return ModelBuildProject(stack, construct_id, **({"models": ["minilm"]} | given | arguments))

    return make


def template_of_build(source: Path, **arguments: Any) -> dict[str, Any]:
    """The template of a stack with a build job and its repository."""
    stack = Stack(App(), "Fleet")
    build_in(stack, source=source, repository=ModelRepository(stack, "Repository"))(**arguments)
    return dict(Template.from_stack(stack).to_json())


def declare(source: Path, *names: str) -> Path:
    """Make a source folder with these models, or add them to it."""
    (source / "models").mkdir(parents=True, exist_ok=True)
    for name in names:
        declared_models.declare(source / "models", name)
    return source
