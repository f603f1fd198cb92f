"""Stacks to put constructs into, and the templates that come out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Environment, Stack
from aws_cdk.assertions import Template
from triton_fleet import ModelRepository, MultiModelEndpoint

Resources = dict[str, dict[str, Any]]
Synthesise = Callable[[], Resources]


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
def stack(app: App) -> Stack:
    """A stack that leaves account and region to the deployment."""
    return Stack(app, "Fleet")


@pytest.fixture
def dublin(app: App) -> Stack:
    """A stack in a region known at synthesis."""
    return Stack(app, "Dublin", env=Environment(region="eu-west-1"))


@pytest.fixture
def repository(stack: Stack) -> ModelRepository:
    return ModelRepository(stack, "Repository")


@pytest.fixture
def endpoint(stack: Stack, repository: ModelRepository) -> MultiModelEndpoint:
    """The endpoint of one statement, with every default."""
    return MultiModelEndpoint(stack, "Endpoint", repository=repository)


@pytest.fixture
def template(stack: Stack) -> Callable[[], Template]:
    """The stack's template, once everything has been put into it."""
    return lambda: Template.from_stack(stack)


@pytest.fixture
def resources(stack: Stack) -> Callable[[str], list[dict[str, Any]]]:
    """The resources of a type in the stack, without their logical ids."""

    def of_type(resource_type: str) -> list[dict[str, Any]]:
        return list(Template.from_stack(stack).find_resources(resource_type).values())

    return of_type


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source folder of model builds."""
    (tmp_path / "requirements.txt").write_text("boto3\n")
    for model in ("minilm", "resnet50"):
        folder = tmp_path / "models" / model
        folder.mkdir(parents=True)
        (folder / "build.py").write_text("BUILD = None\n")
    return tmp_path
