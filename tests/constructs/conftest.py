"""Stacks to put constructs into, and the resources that come out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Environment, Stack
from aws_cdk.assertions import Template
from declared import Build, build_in, declare
from synthesised import Resources

from triton_fleet import ModelRepository, MultiModelEndpoint


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
def stack(app: App) -> Stack:
    """A stack that leaves account and region to the deployment."""
    return Stack(app, "Fleet")


@pytest.fixture
def stack_in() -> Callable[[str], Stack]:
    """Makes a stack in a region known at synthesis."""
    return lambda region: Stack(App(), "Fleet", env=Environment(region=region))


@pytest.fixture
def repository(stack: Stack) -> ModelRepository:
    return ModelRepository(stack, "Repository")


@pytest.fixture
def endpoint(stack: Stack, repository: ModelRepository) -> MultiModelEndpoint:
    """The endpoint of one statement, with every default but its name."""
    return MultiModelEndpoint(stack, "Endpoint", repository=repository, endpoint_name="fleet")


@pytest.fixture
def resources(stack: Stack) -> Resources:
    """The properties of the resources of a type in the stack."""

    def of_type(resource_type: str) -> list[dict[str, Any]]:
        found = Template.from_stack(stack).find_resources(resource_type)
        return [each["Properties"] for each in found.values()]

    return of_type


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source folder of model builds."""
    return declare(tmp_path, "minilm", "resnet50")


@pytest.fixture
def build(stack: Stack, repository: ModelRepository, source: Path) -> Build:
    """Makes build jobs of `minilm`, unless other models are given."""
    return build_in(stack, repository=repository, source=source)
