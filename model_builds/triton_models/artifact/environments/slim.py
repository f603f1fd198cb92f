"""A Python environment inside an artifact, for a model that needs more than its image contains.

It is a folder of wheels for the release's Python, named by EXECUTION_ENV_PATH. pip fetches the wheels on any
machine, without conda and without that Python version. The environment stays unpacked in the artifact, as
Triton unpacks an environment.tar.gz into /tmp and keeps it there until the server ends.

It replaces the image's packages, so it must include NumPy; the interpreter and the standard library remain
those of the image. `PythonModel.packages` is lighter, for packages that load in any Python: see
`triton_models.artifact.environments.packages`. A declaration names the wheels:
`triton_models.declare.environments`.

The requirements of the wheels must be among them, because the model does not see the image's packages: those
of METADATA (Requires-Dist), with the markers of the release's Python on Linux x86-64.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from email.parser import HeaderParser
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from triton_models.artifact.environments.declared import ENVIRONMENT_WHEELS
from triton_models.artifact.environments.packages import INSTALLER_FILES
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report

ENVIRONMENT_REQUIRES = Check(id="environment-requires", source=FROM_ARGUMENTS)
ENVIRONMENT_WITHOUT = Check(id="environment-without", source=FROM_ARGUMENTS)

# The folder of the interpreter in the Triton images: Ubuntu's own.
_IMAGE_PYTHON = "/usr/bin"

# The oldest image in the table has glibc 2.35 (Ubuntu 22.04). pip needs each compatible tag by name.
_PLATFORMS = (*(f"manylinux_2_{minor}_x86_64" for minor in range(35, 16, -1)), "manylinux2014_x86_64")

# The model's process finds its packages by the first executable python3 on PATH. Releases up to 25.07 source
# this file before they start it; later ones only check that it exists, and extend PATH themselves.
_ACTIVATE = """\
environment="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
chmod +x "$environment/bin/python3"
export PATH="$environment/bin:$PATH"
"""

# Never run: Python finds its packages relative to this path.
_PLACEHOLDER = f'#!/bin/sh\nexec {_IMAGE_PYTHON}/python3 "$@"\n'

# The Python of Ubuntu 22.04 and 24.04, the systems of the images.
_FULL_VERSIONS = {"3.10": "3.10.12", "3.12": "3.12.3"}
_RESOLVE_S = 120.0
_UNKNOWN = "VERSION"


def make_environment(
    folder: Path,
    *,
    wheels: Sequence[str],
    python: str,
    not_needed: Collection[str] = (),
    without: Sequence[str] = (),
) -> None:
    """Create an environment from wheels."""
    packages = folder / "lib" / f"python{python}" / "site-packages"
    packages.mkdir(parents=True)
    command = _pip(packages, python)
    _install(command, wheels, packages, python)
    _refuse_unmet(packages, python=python, not_needed=not_needed, pip=[*command, *wheels])
    _remove(packages, without)
    (folder / "bin").mkdir()
    (folder / "bin" / "activate").write_text(_ACTIVATE)
    (folder / "bin" / "python3").write_text(_PLACEHOLDER)
    (folder / "bin" / "python3").chmod(0o755)
    (folder / "pyvenv.cfg").write_text(
        f"home = {_IMAGE_PYTHON}\ninclude-system-site-packages = false\nversion = {python}\n"
    )


def _pip(packages: Path, python: str) -> list[str]:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-compile", "--only-binary=:all:", "--implementation", "cp"]
    command += ["--python-version", python, "--target", str(packages)]
    for platform in _PLATFORMS:
        command += ["--platform", platform]
    return command


def _install(command: Sequence[str], wheels: Sequence[str], packages: Path, python: str) -> None:
    # A build job sets PIP_USER, which pip cannot combine with a target.
    own = {**os.environ, "PIP_USER": "0"}
    run = subprocess.run([*command, *wheels], env=own, capture_output=True, text=True, check=False)
    if run.returncode:
        said = [line for line in run.stderr.splitlines() if line.startswith("ERROR: ")]
        raise ENVIRONMENT_WHEELS.error(
            what=f"pip cannot install {', '.join(wheels)}: {' '.join(said) or run.stderr.strip()[-500:]}",
            where=f"the environment {packages}",
            why="the model would lack its packages",
            fix=f"fix the names and versions: each needs a wheel for Python {python} on Linux x86-64; or set "
            "PIP_INDEX_URL or PIP_FIND_LINKS",
        )
    shutil.rmtree(packages / "bin", ignore_errors=True)  # scripts that contain paths of this machine
    for record in packages.glob("*.dist-info/*"):
        if record.name in INSTALLER_FILES:
            record.unlink()


def _remove(packages: Path, patterns: Sequence[str]) -> None:
    report = Report("`without` of the environment's wheels")
    for pattern in patterns:
        found = list(packages.glob(pattern))
        if not found:
            fix = "correct the pattern, or remove it: it is relative to site-packages"
            report(ENVIRONMENT_WITHOUT, f"no file of the wheels matches {pattern!r}", fix=fix)
        for path in found:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    report.raise_if_any()


class _Package(NamedTuple):
    name: str
    version: str
    requires: Sequence[str]


class _Unmet(NamedTuple):
    """A requirement, such as "numpy>=2.3", that an environment does not meet, with the version it has."""

    by: _Package
    name: str
    wanted: str
    found: str | None


def _refuse_unmet(
    site_packages: Path, *, python: str, not_needed: Collection[str], pip: Sequence[str]
) -> None:
    packages = {each.name: each for each in _installed(site_packages)}
    unmet = _unmet(packages, python, not_needed)
    report, why = Report("the wheels of the environment"), "the import may fail at the endpoint"
    lacking: dict[str, list[str]] = {}
    for each in unmet:
        if each.found is None:
            lacking.setdefault(each.by.name, []).append(each.name)
    if lacking:
        added = ", ".join(map(json.dumps, _to_add(packages, python, not_needed, pip)))
        names = sorted({name for each in lacking.values() for name in each})
        what = "; ".join(f"{name} requires {', '.join(each)}" for name, each in lacking.items())
        what += f": the wheels lack {'it' if len(names) == 1 else 'them'}"
        fix = f"add {added}; name what the model never imports in Wheels(..., not_needed={json.dumps(names)})"
        report(ENVIRONMENT_REQUIRES, what, fix=fix, why=why)
    for by, name, wanted, found in unmet:
        if found is not None:
            what = f"{by.name}=={by.version} requires {wanted}, and the wheels have {name}=={found}"
            fix = "pin another version of either; if they work together, say "
            fix += f"Wheels(..., not_needed=[{json.dumps(name)}])"
            report(ENVIRONMENT_REQUIRES, what, fix=fix, why=why)
    report.raise_if_any()


def _to_add(
    packages: Mapping[str, _Package], python: str, not_needed: Collection[str], pip: Sequence[str]
) -> list[str]:
    """Return what is missing, directly or not, pinned to the versions that pip finds."""
    have, found, asked = dict(packages), dict[str, _Package](), list[str]()
    while missing := {each.name: each.wanted for each in _unmet(have, python, not_needed) if not each.found}:
        if missing.keys() - found.keys():
            # By name, because pip evaluates markers for the Python that runs it.
            asked += missing.values()
            found = {each.name: each for each in _resolved([*pip, *asked])}
        for name in missing:
            have[name] = found.get(name, _Package(name, _UNKNOWN, ()))
    return [f"{name}=={have[name].version}" for name in sorted(set(have) - set(packages))]


def _resolved(pip: Sequence[str]) -> Iterator[_Package]:
    """Yield the packages that pip would install with their requirements; none if it fails."""
    without = [each for each in pip if each != "--no-deps"]
    try:
        run = subprocess.run(
            [*without, "--dry-run", "--ignore-installed", "--report", "-"],
            capture_output=True,
            check=True,
            timeout=_RESOLVE_S,
        )
        report = json.loads(run.stdout)
    except (subprocess.SubprocessError, OSError, ValueError):
        return
    for each in report["install"]:
        about = each["metadata"]
        yield _Package(canonicalize_name(about["name"]), about["version"], about.get("requires_dist", ()))


def _installed(site_packages: Path) -> Iterator[_Package]:
    for path in sorted(site_packages.glob("*.dist-info/METADATA")):
        about = HeaderParser().parsestr(path.read_text(encoding="utf-8", errors="replace"))
        requires = [str(each) for each in about.get_all("Requires-Dist", ())]
        yield _Package(canonicalize_name(about["Name"]), about["Version"], requires)


def _unmet(packages: Mapping[str, _Package], python: str, not_needed: Collection[str]) -> list[_Unmet]:
    """Return every requirement of the packages that they do not meet, with the extras that they ask for."""
    ignored = {canonicalize_name(name) for name in not_needed}
    extras: dict[str, set[str]] = defaultdict(set)
    before = -1
    while before != (before := sum(map(len, extras.values()))):  # an extra may require further extras
        for package in packages.values():
            for wanted in _wanted(package, python, extras[package.name]):
                extras[canonicalize_name(wanted.name)] |= wanted.extras
    found = []
    for package in packages.values():
        for wanted in _wanted(package, python, extras[package.name]):
            name = canonicalize_name(wanted.name)
            have = packages.get(name)
            if name not in ignored and not (have and _fits(have.version, wanted)):
                version = have.version if have else None
                found.append(_Unmet(package, name, f"{name}{wanted.specifier}", version))
    return found


def _fits(version: str, wanted: Requirement) -> bool:
    try:
        return wanted.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return True


def _wanted(package: _Package, python: str, extras: Collection[str]) -> Iterator[Requirement]:
    for text in package.requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:  # of old wheels, which pip ignores as well
            continue
        marker = requirement.marker
        if marker is None or any(marker.evaluate(_environment(python, extra)) for extra in {"", *extras}):
            yield requirement


def _environment(python: str, extra: str) -> dict[str, str]:
    full = _FULL_VERSIONS.get(python, f"{python}.0")
    return {
        "extra": extra,
        "implementation_name": "cpython",
        "implementation_version": full,
        "os_name": "posix",
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": full,
        "python_version": python,
        "sys_platform": "linux",
    }
