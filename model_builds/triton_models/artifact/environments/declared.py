"""The environments of a declaration, checked for a release before anything is exported or downloaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from triton_models.artifact.environments.packed import packed_problems
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError, Problem
from triton_models.declare.declaration import ModelDefinition
from triton_models.declare.environments import PackedEnvironment, Wheels, pin_mistakes, pins
from triton_models.declare.models import PythonModel
from triton_models.facts.releases import Release

_RELEASES = "triton_models.facts.releases"
ENVIRONMENT_PYTHON = Check(id="environment-python", source=_RELEASES)
ENVIRONMENT_NUMPY = Check(id="environment-numpy", source=_RELEASES)
ENVIRONMENT_WHEELS = Check(id="environment-wheels", source=FROM_ARGUMENTS)


class Served(Protocol):
    """What a declaration is built for: part of a `BuildJob`."""

    @property
    def release(self) -> Release:
        """The Triton release."""

    @property
    def source(self) -> Path:
        """The folder of the declaration."""


def environment_problems(build: ModelDefinition, served: Served) -> Iterator[Problem]:
    """Yield the problems with environments that a release cannot run."""
    for model in with_environment(build):
        yield from _problems(model, served)


def with_environment(build: ModelDefinition) -> Iterator[PythonModel]:
    """Yield the models that have an environment of their own."""
    for model in build.models:
        if isinstance(model, PythonModel) and model.environment is not None:
            yield model


def wheels_of(model: PythonModel, served: Served) -> Sequence[str]:
    """Return the wheels declared for a release."""
    environment, python = model.environment, served.release.python
    if not isinstance(environment, Wheels):
        msg = f"{model.name!r} has no wheels"
        raise TypeError(msg)
    if isinstance(environment.wheels, Mapping):
        if python in environment.wheels:
            return environment.wheels[python]
        what = f"no wheels for Python {python}, only for {', '.join(environment.wheels) or 'none'}"
        why = "a package built for one Python version does not load in another"
        fix = f"add {python!r}: [...] to the wheels, or build for a release with another Python"
        raise ENVIRONMENT_PYTHON.error(what=what, where=_where(model, served.release), why=why, fix=fix)
    if callable(environment.wheels):
        return environment.wheels(served)
    return environment.wheels


def _problems(model: PythonModel, served: Served) -> Iterator[Problem]:
    where = _where(model, served.release)
    if isinstance(model.environment, PackedEnvironment):
        archive = served.source / model.environment.path
        yield from packed_problems(archive, release=served.release, where=where)
        return
    try:
        wheels = wheels_of(model, served)
    except FleetError as error:
        yield from error.problems
        return
    for mistake in pin_mistakes(wheels):
        yield ENVIRONMENT_WHEELS.problem(what=mistake.what, where=where, fix=mistake.fix)
    numpy, below = pins(wheels).get("numpy"), served.release.numpy_below
    if numpy is not None and below is not None and int(numpy.partition(".")[0]) >= below:
        what = f"numpy=={numpy} with release {served.release.name}"
        why = "the model would load and answer with empty tensors and status 200"
        fix = f"pin numpy<{below}, for this Python alone with Wheels({{{served.release.python!r}: [...]}})"
        yield ENVIRONMENT_NUMPY.problem(what=what, where=where, why=why, fix=fix)


def _where(model: PythonModel, release: Release) -> str:
    return f"the environment of {model.name!r}, for release {release.name}"
