"""A source folder of declared models, for what builds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from aws_cdk import App, Stack
from aws_cdk.assertions import Template

from tests.triton_models import declared_models
from triton_fleet import ModelBuildProject, ModelRepository, Placement, Serving

Build = Callable[..., ModelBuildProject]
"""Makes a build job, by its id and its arguments."""


def with_serving(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of a build job, in which those of `Serving` are one."""
    return _with("serving", Serving, given)


def with_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of an endpoint, in which those of `Serving` and `Placement` are one each."""
    return _with("placement", Placement, with_serving(given))


def of_placement(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of an endpoint, in which those of `Placement` are one."""
    return _with("placement", Placement, given)


def _with(name: str, kind: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    names = {each.name for each in fields(kind)}
    own = {each: value for each, value in given.items() if each in names}
    others = {each: value for each, value in given.items() if each not in names}
    return others | ({name: kind(**own)} if own else {})


def build_in(stack: Stack, **given: Any) -> Build:
    """Makes build jobs of `minilm` in a stack, with these arguments unless others are given."""

    def make(construct_id: str = "Builds", **arguments: Any) -> ModelBuildProject:
        return ModelBuildProject(
            stack, construct_id, **with_serving({"models": ["minilm"]} | given | arguments)
        )

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


def declare_family(source: Path, name: str, members: str) -> None:
    """Make a declared model the sample of a family, whose members are this expression."""
    path = source / "models" / name / "build.py"
    family = f"""
from dataclasses import replace
from triton_models.spec import Family, Member, RandomWeights

BUILD = Family(
    name="{name}",
    members={members},
    model=lambda member: replace(SAMPLE, name=member.model),
    sample=Member(weights=RandomWeights(seed=1), parameters=None),
)
"""
    path.write_text(path.read_text().replace("BUILD =", "SAMPLE =") + family)
