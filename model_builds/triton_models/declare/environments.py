"""Python environments for Python models, with packages that the Triton images lack.

An environment replaces the image's packages, and must match the release's Python: 3.10 before release 24.12,
3.12 since. `PythonModel.packages` is a lighter way for packages that load in any Python.
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
    """An environment of wheels, such as `Wheels(["numpy==2.2.6", "scipy==1.17.1"])`.

    pip downloads them for the release's Python on Linux x86-64, on any machine, without conda or a Python of
    that version. The artifact has them unpacked, so a load copies nothing: an environment of 25 MB loads in
    150 ms, a packed one in 500 ms (measured 2026-11-21 with Triton 24.10). Models of an ensemble share equal
    environments.

    A portable build has the environment too. A server of this machine runs the model in the environment's
    Python if it finds one (on PATH, or installed by uv or pyenv). Otherwise the model runs with the server's
    own packages, and `fleet verify` says so.

    ```python
    Wheels(["numpy==2.2.6", "scipy==1.17.1"])
    ```

    Attributes:
        wheels: All packages as name==version, including NumPy and what the packages require. A build names
            those that are missing. For several releases, a mapping from a release's Python to the wheels,
            such as {"3.10": [...], "3.12": [...]}. If the wheels depend on the release, its CUDA or the
            presence of a GPU, a function that takes the BuildJob, reads its `release` and `gpu`, and returns
            them.
        not_needed: Names of packages that the wheels require and the model never imports, so they may be
            missing or have another version.
        without: Files and folders of the wheels that the model never opens, as patterns below site-packages,
            such as "numpy/**/tests". None are left out by default, because no analysis finds every import:
            numpy.testing itself imports a module of NumPy's tests. The examples show what works.
    """

    wheels: Sequence[str] | Mapping[str, Sequence[str]] | Callable[[Any], Sequence[str]]
    not_needed: Sequence[str] = ()
    without: Sequence[str] = ()

    def mistakes(self) -> Iterator[Mistake]:
        """Check that all wheels are pinned, and that releases have the versions of Python."""
        for pattern in self.without:
            if {"", ".", ".."} & set(pattern.split("/")):
                fix = 'name files or folders below site-packages, such as "numpy/**/tests"'
                yield Mistake("without", f"the pattern {pattern!r}", fix=fix)
        if not isinstance(self.wheels, Mapping):
            yield from () if callable(self.wheels) else pin_mistakes(self.wheels)
            return

        known = tuple(dict.fromkeys(release.python for release in RELEASES.values()))
        for python, pins in self.wheels.items():
            if python in known:
                yield from pin_mistakes(pins)
                continue
            fix = did_you_mean(python, known, otherwise=f"name the Python of a release: {', '.join(known)}")
            yield Mistake("wheels", f"wheels for {python!r}", fix=fix)


@dataclass(frozen=True, slots=True)
class PackedEnvironment:
    """An environment packed with conda-pack or venv-pack, for packages without wheels.

    Triton unpacks it into /tmp when the first model with it loads, and removes it only when the server ends
    (server issue 7125), not when the model is unloaded. On a multi-model endpoint every model leaves a copy
    there, until the disk is full. Users report environments of 2 GB and loads of 1 to 10 minutes (server
    issues 5045 and 6115). `Wheels` has none of these costs; use it if there are wheels.

    ```python
    PackedEnvironment("environment.tar.gz")
    ```

    Attributes:
        path: The .tar.gz, relative to the folder of the declaration, or absolute. Pack it on Linux x86-64, on
            the image's version of Ubuntu or an older one, with the release's Python and with NumPy.
    """

    path: str

    def mistakes(self) -> Iterator[Mistake]:
        """Check that it is an archive that Triton can unpack."""
        if not self.path.endswith((".tar.gz", ".tgz")):
            what = f"the packed environment {self.path!r}"
            yield Mistake("path", what, fix="pack it as a .tar.gz: conda-pack -o environment.tar.gz")


Environment: TypeAlias = Wheels | PackedEnvironment


def pin_mistakes(wheels: Sequence[str]) -> Iterator[Mistake]:
    """Yield the mistakes in a list of wheels that do not depend on the release."""
    names = []
    for wheel in wheels:
        match = _PIN.fullmatch(wheel)
        if match:
            names.append(package_name(match["name"]))
        else:
            fix = f"pin the version, as {_PINNED}, such as numpy==2.2.6; extras are ignored"
            yield Mistake("wheels", f"the wheel {wheel!r}", fix=fix)
            names.append(package_name(re.split(r"[^A-Za-z0-9._-]", wheel, maxsplit=1)[0]))
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Mistake("wheels", f"two wheels of {name}", fix="remove one")
    if "numpy" not in names:
        fix = "add numpy==version: the Python backend imports it, and does not see the image's NumPy"
        yield Mistake("wheels", "an environment without NumPy", fix=fix)


def pins(wheels: Sequence[str]) -> Mapping[str, str]:
    """Return the version of each package, by name, for wheels without mistakes."""
    matches = (_PIN.fullmatch(wheel) for wheel in wheels)
    return {package_name(match["name"]): match["version"] for match in matches if match}


def package_name(text: str) -> str:
    """Return the normalized name of a package (PEP 503)."""
    return re.sub(r"[-_.]+", "-", text).lower()
