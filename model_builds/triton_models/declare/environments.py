"""Python environments that a Python model can bring, for what the Triton images have not.

An environment replaces the image's packages, and belongs to the release's Python: 3.10 before release 24.12,
3.12 from there on. `PythonModel.packages` is lighter, for packages that load in any Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from triton_models.base.suggest import did_you_mean
from triton_models.declare.mistakes import Mistake
from triton_models.facts.releases import RELEASES

_PIN = re.compile(r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)==(?P<version>[0-9][A-Za-z0-9.+_-]*)")
_PINNED = "name==version"


@dataclass(frozen=True, slots=True)
class Wheels:
    """An environment of wheels, such as `Wheels(["numpy==2.2.6", "onnxruntime==1.31.1"])`.

    pip fetches them for the release's Python on Linux x86-64, on any machine: no conda is needed, and no
    Python of that version. They travel unpacked, so that a load copies nothing: an environment of 25 MB loads
    in 150 ms, where a packed one takes 500 ms (measured 2026-11-21 with Triton 24.10). Models of an ensemble
    with equal environments share one.

    A portable build leaves the environment out: the rehearsal's Python is another, and must have the packages
    itself.

    Attributes:
        wheels: Every package as name==version, NumPy among them: dependencies are not followed, for much of
            what packages ask for a model never imports. For several releases a mapping from the Python of a
            release to its wheels, such as {"3.10": [...], "3.12": [...]}; or a function that gets the
            BuildJob, for what depends on the release, on its CUDA, or on whether there is a GPU.
    """

    wheels: Sequence[str] | Mapping[str, Sequence[str]] | Callable[[Any], Sequence[str]]

    def mistakes(self) -> Iterator[Mistake]:
        """Every list that is written down has pinned wheels, and the Pythons are those of releases."""
        if isinstance(self.wheels, Mapping):
            yield from self._mapping_mistakes(self.wheels)
        elif not callable(self.wheels):
            yield from pin_mistakes(self.wheels)

    @staticmethod
    def _mapping_mistakes(wheels: Mapping[str, Sequence[str]]) -> Iterator[Mistake]:
        known = release_pythons()
        for python, pins in wheels.items():
            if python in known:
                yield from pin_mistakes(pins)
                continue
            yield Mistake(
                field="wheels",
                what=f"wheels for {python!r}",
                expected=f"the Python of a release: {', '.join(known)}",
                fix=did_you_mean(
                    python,
                    known,
                    otherwise="name the Python, not the release; a function can distinguish releases",
                ),
            )


@dataclass(frozen=True, slots=True)
class PackedEnvironment:
    """An environment that conda-pack or venv-pack packed, for what has no wheels.

    What it costs: Triton unpacks it into /tmp when a model with it is first loaded, and removes it only when
    the server ends (server issue 7125), also after the model was unloaded. On a multi-model endpoint every
    model leaves its copy there, until the disk is full; people report environments of 2 GB and loads of 1 to
    10 minutes (server issues 5045 and 6115). Where there are wheels, `Wheels` costs none of that.

    A portable build leaves it out.

    Attributes:
        path: The .tar.gz, relative to the folder of the declaration, or absolute. Pack it on Linux x86-64, on
            the image's version of Ubuntu or an older one, with the release's Python and with NumPy.
    """

    path: str

    def mistakes(self) -> Iterator[Mistake]:
        """It is an archive that Triton can unpack."""
        if not self.path.endswith((".tar.gz", ".tgz")):
            yield Mistake(
                field="path",
                what=f"the packed environment {self.path!r}",
                expected="a .tar.gz, the one form that the Python backend unpacks",
                fix="pack it again: conda-pack -o environment.tar.gz",
            )


Environment: TypeAlias = Wheels | PackedEnvironment


def release_pythons() -> tuple[str, ...]:
    """The versions of Python that releases have, in the order of the releases."""
    return tuple(dict.fromkeys(release.python for release in RELEASES.values()))


def pin_mistakes(wheels: Sequence[str]) -> Iterator[Mistake]:
    """Yield the mistakes in a list of wheels that hold for every release."""
    names = []
    for wheel in wheels:
        match = _PIN.fullmatch(wheel)
        if match:
            names.append(package_name(match["name"]))
        else:
            yield _mistake(
                f"the wheel {wheel!r}",
                f"{_PINNED}, such as numpy==2.2.6",
                "pin the version: the same declaration must give the same artifact; extras are not followed",
            )
            names.append(package_name(re.split(r"[^A-Za-z0-9._-]", wheel, maxsplit=1)[0]))
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield _mistake(f"two wheels of {name}", "one of each package", "remove one")
    if "numpy" not in names:
        yield _mistake(
            "an environment without NumPy",
            "numpy==version among the wheels",
            "add it: the Python backend imports it, and does not see the image's NumPy",
        )


def pins(wheels: Sequence[str]) -> Mapping[str, str]:
    """Package -> version, of wheels without mistakes."""
    matches = (_PIN.fullmatch(wheel) for wheel in wheels)
    return {package_name(match["name"]): match["version"] for match in matches if match}


def package_name(text: str) -> str:
    """A package's name as all spellings of it are compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", text).lower()


def _mistake(what: str, expected: str, fix: str) -> Mistake:
    return Mistake(field="wheels", what=what, expected=expected, fix=fix)
