"""The environments of a declaration: added to the artifact, and configured.

An environment is in its model's directory. Steps of an ensemble with equal environments share one next to
their directories: EXECUTION_ENV_PATH may point outside a model's directory (tested with Triton 24.10, packed
and unpacked), and SageMaker ignores a folder next to an ensemble. Next to a plain model, SageMaker could
mistake the folder for the model, so plain models do not share environments.
"""

from __future__ import annotations

import itertools
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from triton_models.artifact.environments.declared import wheels_of, with_environment
from triton_models.artifact.pbtxt import CONFIG_FILE, read_config, write_config
from triton_models.base.files import file_digest
from triton_models.builds.job import Job
from triton_models.declare.declaration import ModelDefinition
from triton_models.declare.environments import PackedEnvironment, Wheels
from triton_models.declare.models import Ensemble, PythonModel

FOLDER = "environment"
_MODEL_DIRECTORY = "$$TRITON_MODEL_DIRECTORY"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slim:
    """An environment to create from wheels, each name==version."""

    wheels: tuple[str, ...]
    python: str
    not_needed: tuple[str, ...]
    without: tuple[str, ...]
    suffix: str = ""

    def write(self, place: Path) -> None:
        from triton_models.artifact.environments.slim import make_environment  # needs a package of builds

        make_environment(
            place, wheels=self.wheels, python=self.python, not_needed=self.not_needed, without=self.without
        )

    def describe(self) -> str:
        return ", ".join(self.wheels) + (f" without {', '.join(self.without)}" if self.without else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Packed:
    """A packed environment."""

    archive: Path
    suffix: str = ".tar.gz"

    def write(self, place: Path) -> None:
        shutil.copyfile(self.archive, place)

    def describe(self) -> str:
        return f"sha256:{file_digest(self.archive)}"


_Content: TypeAlias = _Slim | _Packed


def add_environments(build: ModelDefinition, job: Job) -> None:
    """Add a declaration's environments to its finished model directories and their configurations."""
    users: dict[_Content, list[str]] = {}
    for model in with_environment(build):
        users.setdefault(_content(model, job), []).append(model.name)
    ensembles = any(isinstance(model, Ensemble) for model in build.models)
    names_of_folders = itertools.chain([FOLDER], (f"{FOLDER}-{number}" for number in itertools.count(2)))
    taken = {model.name for model in build.models}
    free = (name for name in names_of_folders if name not in taken)
    for content, names in users.items():
        if len(names) > 1 and ensembles:
            name = f"{next(free)}{content.suffix}"
            content.write(job.root / name)
            job.sources[f"environment:{name}"] = content.describe()
            for user in names:
                _name(job.root / user, f"../{name}")
            continue
        for user in names:
            name = f"{FOLDER}{content.suffix}"
            content.write(job.root / user / name)
            job.sources[f"environment:{user}"] = content.describe()
            _name(job.root / user, name)


def _name(model: Path, path: str) -> None:
    config = read_config(model / CONFIG_FILE)
    config.parameters["EXECUTION_ENV_PATH"].string_value = f"{_MODEL_DIRECTORY}/{path}"
    write_config(config, model / CONFIG_FILE)


def _content(model: PythonModel, job: Job) -> _Content:
    if isinstance(model.environment, PackedEnvironment):
        return _Packed(archive=job.source / model.environment.path)
    wheels = tuple(wheels_of(model, job))
    declared = model.environment
    assert isinstance(declared, Wheels)  # noqa: S101 -- the other kind of an environment
    return _Slim(
        wheels=wheels,
        python=job.release.python,
        not_needed=tuple(declared.not_needed),
        without=tuple(declared.without),
    )
