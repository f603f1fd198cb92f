"""The environments of a declaration, checked for a release before anything is exported or downloaded.

One that was packed by conda-pack or venv-pack is read without unpacking it.
"""

from __future__ import annotations

import posixpath
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from triton_models.artifact.archive import CLASH, ENVIRONMENT, Member, members
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.errors import FleetError, Problem
from triton_models.declare.declaration import ModelDefinition
from triton_models.declare.environments import PackedEnvironment, Wheels, pin_mistakes, pins
from triton_models.declare.models import PythonModel
from triton_models.facts.releases import Release

PACKED = Check(id="packed-environment", source=FROM_ARGUMENTS)

_NOT_LOADED = "the model would not load"
_ACTIVATE = "bin/activate"
_LIBRARY = re.compile(r"lib/python(\d+\.\d+)(?:/|$)")
_NUMPY = re.compile(
    r"lib/python[\d.]+/site-packages/(?:numpy-([0-9][^/-]*)\.dist-info|numpy|[^/]*\.pth)(?:/|$)"
)


@dataclass(kw_only=True)
class _Found:
    """The contents of an archive that matter for an environment. A .pth file may lead to NumPy elsewhere."""

    activate: set[str] = field(default_factory=set)
    pythons: set[str] = field(default_factory=set)
    numpy: set[str] = field(default_factory=set)
    may_have_numpy: bool = False
    unequal: set[str] = field(default_factory=set)
    _contents: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, member: Member) -> None:
        """Record what a member reveals about the environment."""
        path = member.path
        if posixpath.basename(path) == "activate" and path.endswith(_ACTIVATE):
            self.activate.add(path)
        if match := _LIBRARY.match(path):
            self.pythons.add(match[1])
        if match := _NUMPY.match(path):
            self.may_have_numpy = True
            self.numpy |= {match[1]} if match[1] else set()
        if member.kind == "file":
            content = (member.size, _checksum(member))
            if self._contents.setdefault(path, content) != content:
                self.unequal.add(path)


def _checksum(member: Member) -> int:
    checksum = 0
    while piece := member.content.read(1 << 20):
        checksum = zlib.crc32(piece, checksum)
    return checksum


def packed_problems(archive: Path, *, release: Release, where: str) -> tuple[Problem, ...]:
    """Return the reasons why a release cannot run a packed environment, which is read once."""
    try:
        with archive.open("rb") as content:
            return problems_of(content, name=archive.name, release=release, where=where)
    except FileNotFoundError:
        report = Report(where)
        fix = "create it: conda-pack -n NAME -o environment.tar.gz"
        report(PACKED, f"the packed environment {str(archive)!r} does not exist", fix=fix, why=_NOT_LOADED)
        return report.problems


def problems_of(content: IO[bytes], *, name: str, release: Release | None, where: str) -> tuple[Problem, ...]:
    """Return the same as `packed_problems` for an open archive, and a release if it is known."""
    found, report = _Found(), Report(where)
    try:
        for member in members(content, where=where, limits=ENVIRONMENT):
            found.add(member)
    except FleetError as error:
        return error.problems
    except OSError as error:
        fix = "check the file permissions and the disk"
        report(PACKED, f"{name} cannot be read: {error}", fix=fix, why=_NOT_LOADED)
        return report.problems
    for path in sorted(found.unequal):
        report.at(path)(
            CLASH,
            "a file occurs twice with different content",
            fix="unpack it into a folder and pack that: tar -czf environment.tar.gz -C FOLDER .",
            why="the first content is lost when Triton unpacks it",
        )
    _check_content(report, found, name, release)
    return report.problems


def _check_content(report: Report, found: _Found, name: str, release: Release | None) -> None:
    if _ACTIVATE not in found.activate and found.activate:
        fix = f"pack the contents of the folder, not the folder itself: tar -czf {name} -C FOLDER ."
        report(PACKED, f"{name} has its {_ACTIVATE} at {min(found.activate)}", fix=fix, why=_NOT_LOADED)
    elif not found.activate:
        fix = "pack a complete environment with conda-pack or venv-pack"
        report(PACKED, f"{name} has no {_ACTIVATE}", fix=fix, why=_NOT_LOADED)
    elif release is not None and release.python not in found.pythons:
        had = ", ".join(sorted(found.pythons))
        what = f"{name} is an environment of Python {had}" if had else f"{name} has no lib/python3.X"
        fix = f"recreate it with python={release.python}, or build for a release with its Python"
        report(PACKED, what, fix=fix, why=_NOT_LOADED)
    elif not found.may_have_numpy:
        fix = "install numpy into the environment and pack it again"
        report(PACKED, f"{name} has no NumPy", fix=fix, why=_NOT_LOADED)
    below = release.numpy_below if release is not None else None
    for version in sorted(found.numpy):
        if below is not None and int(version.partition(".")[0]) >= below:
            fix = f"recreate the environment with 'numpy<{below}', or serve with release 24.12 or newer"
            why = "the model would load and answer with empty tensors and status 200"
            report(PACKED, f"{name} has NumPy {version}", fix=fix, why=why)


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
