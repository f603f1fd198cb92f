"""Checks of Python environments in models: those that do not load, and those that give empty answers.

GetPythonEnvironment in src/stub_launcher.cc and src/pb_env.cc of python_backend (main of 2026-07-17, read
2026-11-21) use a folder directly, and only check that it has bin/activate. The interpreter then looks for
python3 on PATH and for pyvenv.cfg next to it (Modules/getpath.py of CPython).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from triton_models.base.errors import Problem
from triton_models.check.subject import ArtifactCheck, Model, Subject
from triton_models.check.target import ENDPOINTS
from triton_models.environments.packages import loads_in
from triton_models.environments.packed import problems_of

_SOURCE = "2026-11-21: python_backend, src/stub_launcher.cc and src/pb_env.cc; CPython, Modules/getpath.py"

_PARAMETER = "EXECUTION_ENV_PATH"
_MODEL_DIRECTORY = "$$TRITON_MODEL_DIRECTORY"
_LIBRARY = re.compile(r"python(\d+\.\d+)")
_NUMPY = re.compile(r"numpy-([0-9]+)[^/-]*\.dist-info")
_TAG = re.compile(rb"^Tag:\s*(\S+)", re.MULTILINE)
_WHEEL_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Environment:
    """An unpacked environment of an artifact.

    Attributes:
        model: The first model that uses it.
        path: The path of its folder in the layout.
        pythons: The versions of Python that it has packages for.
    """

    model: Model
    path: str
    pythons: tuple[str, ...]

    def packages(self, python: str) -> str:
        """Return the folder with the packages for a version of Python."""
        return f"{self.path}/lib/python{python}/site-packages"


def environment_outside(subject: Subject) -> Iterator[Problem]:
    """Check that an environment is inside the artifact that names it."""
    for model, value in _named(subject):
        if _inside(subject, model, value) is None:
            yield subject.refuse(
                model,
                f"parameters: {_PARAMETER}",
                f"the environment {value!r} is outside the artifact",
                expected=f"{_MODEL_DIRECTORY}/environment; for steps also {_MODEL_DIRECTORY}/../environment",
                why="the path does not exist on an endpoint",
                fix="put the environment into the artifact",
            )


def environment_files(subject: Subject) -> Iterator[Problem]:
    """Check that an environment has the files by which Triton and Python recognize it."""
    for each in _environments(subject):
        for name, why in (
            ("bin/activate", "Triton refuses the model"),
            ("bin/python3", "without it, Python uses the image's packages"),
        ):
            if f"{each.path}/{name}" not in subject.layout.files:
                yield _problem(
                    subject,
                    each.path,
                    f"no {name} in the environment {each.path!r}",
                    expected="an environment with bin/activate, bin/python3 and lib/python3.X/site-packages",
                    why=why,
                    fix="declare it as Wheels and rebuild the model, or unpack a complete environment there",
                )


def environment_python(subject: Subject) -> Iterator[Problem]:
    """Check that an environment is for the release's Python."""
    release = subject.target.release
    for each in _environments(subject):
        if release is not None and release.python not in each.pythons:
            had = f"is for Python {', '.join(each.pythons)}" if each.pythons else "has no lib/python3.X"
            yield _problem(
                subject,
                f"{each.path}/lib",
                f"the environment {each.path!r} {had}",
                expected=f"Python {release.python}, with which release {release.name} runs models",
                why="the model's process does not find its packages",
                fix=f"build the model again for release {release.name}, or serve it with the release that it "
                "was built for",
            )


def environment_numpy(subject: Subject) -> Iterator[Problem]:
    """Check that an environment has a NumPy that the release can use."""
    release = subject.target.release
    below = release.numpy_below if release is not None else None
    for each in _environments(subject):
        for python in _pythons(subject, each):
            folder = each.packages(python)
            names = subject.layout.children(folder)
            majors = [int(match[1]) for match in map(_NUMPY.fullmatch, names) if match]
            if not majors and "numpy" not in names and not _leads_elsewhere(subject, folder):
                yield _problem(
                    subject,
                    folder,
                    f"no NumPy in the environment {each.path!r}",
                    expected="numpy among its packages",
                    why="the Python backend imports it, and does not see the image's NumPy",
                    fix="add numpy==version to its wheels, and rebuild the model",
                )
            if release is not None and below is not None and any(major >= below for major in majors):
                yield _problem(
                    subject,
                    folder,
                    f"NumPy {max(majors)} in the environment {each.path!r}",
                    expected=f"numpy<{below} with release {release.name}",
                    why="the model loads, and answers with empty tensors and status 200",
                    fix=f"pin numpy<{below}, and build the model again; or serve with release 24.12 or newer",
                )


def packed_environment(subject: Subject) -> Iterator[Problem]:
    """Check that a packed environment is complete, for the release's Python, and has a suitable NumPy."""
    seen: set[str] = set()
    for model, value in _named(subject):
        path = _inside(subject, model, value)
        if path is None or path in seen or path not in subject.layout.files:
            continue
        seen.add(path)
        name, where = posixpath.basename(path), subject.layout.place(path)
        with suppress(OSError), subject.layout.opened(path) as content:
            yield from problems_of(content, name=name, release=subject.target.release, where=where)


def environment_wheel(subject: Subject) -> Iterator[Problem]:
    """Check that the packages of an environment are built for the images' platform and Python."""
    for each in _environments(subject):
        for python in _pythons(subject, each):
            folder = each.packages(python)
            for name in subject.layout.children(folder):
                path = f"{folder}/{name}/WHEEL"
                if not name.endswith(".dist-info") or path not in subject.layout.files:
                    continue
                said = subject.layout.beginning(path, _WHEEL_BYTES) or b""
                tags = [tag.decode(errors="replace") for tag in _TAG.findall(said)]
                if tags and not any(_loads(tag, python) for tag in tags):
                    yield _problem(
                        subject,
                        path,
                        f"{name.removesuffix('.dist-info')} is built for {', '.join(tags)}",
                        expected=f"a wheel for Python {python} on Linux x86-64 with glibc",
                        why="the import fails, and the model does not load",
                        fix="declare the environment as Wheels, so that pip downloads wheels for the image",
                    )


def _named(subject: Subject) -> Iterator[tuple[Model, str]]:
    """Yield the Python models with an environment relative to their directory, and its given path."""
    for model, config in subject.having("parameters"):
        if model.backend.name == "python" and _PARAMETER in config.parameters:
            value = config.parameters[_PARAMETER].string_value
            if value.startswith(_MODEL_DIRECTORY):
                yield model, value


def _inside(subject: Subject, model: Model, value: str) -> str | None:
    return subject.inside(model, value.removeprefix(_MODEL_DIRECTORY).lstrip("/") or ".")


def _environments(subject: Subject) -> Iterator[_Environment]:
    """Yield every unpacked environment once."""
    seen: set[str] = set()
    for model, value in _named(subject):
        path = _inside(subject, model, value)
        if path is None or path in seen or path not in subject.layout.directories:
            continue
        seen.add(path)
        matches = map(_LIBRARY.fullmatch, subject.layout.children(posixpath.join(path, "lib")))
        yield _Environment(model=model, path=path, pythons=tuple(match[1] for match in matches if match))


def _pythons(subject: Subject, environment: _Environment) -> tuple[str, ...]:
    """Return the Python versions to check: the release's, or all of them if the release is unknown."""
    release = subject.target.release
    if release is None:
        return environment.pythons
    return tuple(python for python in environment.pythons if python == release.python)


def _leads_elsewhere(subject: Subject, folder: str) -> bool:
    """Return True if a .pth file may add more folders with packages."""
    return any(path.endswith(".pth") and posixpath.dirname(path) == folder for path in subject.layout.files)


def _loads(tag: str, python: str) -> bool:
    """Return True if a package with this tag can be imported. Local builds have the tag linux_x86_64."""
    return tag.count("-") == 2 and loads_in(tag.replace("-linux_", "-manylinux_"), python)  # noqa: PLR2004


def _problem(subject: Subject, path: str, what: str, *, expected: str, why: str, fix: str) -> Problem:
    return Problem(what=what, where=subject.layout.place(path), expected=expected, why=why, fix=fix)


CHECKS = (
    ArtifactCheck(id="environment-outside", source=_SOURCE, find=environment_outside, endpoints=ENDPOINTS),
    ArtifactCheck(id="environment-files", source=_SOURCE, find=environment_files),
    ArtifactCheck(id="environment-python", source=_SOURCE, find=environment_python),
    ArtifactCheck(id="environment-numpy", source=_SOURCE, find=environment_numpy),
    ArtifactCheck(id="packed-environment", source=_SOURCE, find=packed_environment),
    ArtifactCheck(id="environment-wheel", source=_SOURCE, find=environment_wheel),
)
