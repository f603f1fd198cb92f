"""Requirements of the wheels of an environment, which must be among them.

The model does not see the image's packages. The requirements are those of METADATA (Requires-Dist), with the
markers of the release's Python on Linux x86-64.
"""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from triton_models.base.errors import FleetError, Problem

RULE = "environment-requires"

# The Python of Ubuntu 22.04 and 24.04, the systems of the images.
_FULL_VERSIONS = {"3.10": "3.10.12", "3.12": "3.12.3"}
_RESOLVE_S = 120.0
_UNKNOWN = "VERSION"


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package of an environment."""

    name: str
    version: str
    requires: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmet:
    """A requirement that an environment does not meet.

    Attributes:
        wanted: The required package with its versions, such as "numpy>=2.3".
        found: The version in the environment; None without one.
    """

    by: Package
    name: str
    wanted: str
    found: str | None


def refuse_unmet(
    site_packages: Path, *, python: str, not_needed: Collection[str], pip: Sequence[str]
) -> None:
    """Refuse an environment that lacks what its packages require.

    Raises:
        FleetError: A required package is missing, or has another version.
    """
    packages = {each.name: each for each in _installed(site_packages)}
    unmet = _unmet(packages, python, not_needed)
    if not unmet:
        return
    raise FleetError([*_missing(packages, unmet, python, not_needed, pip), *_conflicts(unmet)])


def _missing(
    packages: Mapping[str, Package],
    unmet: Sequence[Unmet],
    python: str,
    not_needed: Collection[str],
    pip: Sequence[str],
) -> Iterator[Problem]:
    by: dict[str, list[str]] = {}
    for each in unmet:
        if each.found is None:
            by.setdefault(each.by.name, []).append(each.name)
    if not by:
        return
    wanted = _to_add(packages, python, not_needed, pip)
    names = sorted({name for each in by.values() for name in each})
    yield Problem(
        what="; ".join(f"{name} requires {', '.join(each)}" for name, each in by.items())
        + f": the wheels lack {'it' if len(names) == 1 else 'them'}",
        where="the wheels of the environment",
        why="the import may fail at the endpoint",
        fix=f"add {', '.join(json.dumps(each) for each in wanted)}; name what the model never imports in "
        f"Wheels(..., not_needed={json.dumps(names)})",
        rule=RULE,
    )


def _conflicts(unmet: Sequence[Unmet]) -> Iterator[Problem]:
    for each in unmet:
        if each.found is not None:
            yield Problem(
                what=f"{each.by.name}=={each.by.version} requires {each.wanted}, and the wheels have "
                f"{each.name}=={each.found}",
                where="the wheels of the environment",
                why="the import may fail at the endpoint",
                fix=f"pin another version of either; if they work together, say "
                f"Wheels(..., not_needed=[{json.dumps(each.name)}])",
                rule=RULE,
            )


def _to_add(
    packages: Mapping[str, Package], python: str, not_needed: Collection[str], pip: Sequence[str]
) -> list[str]:
    """Return what is missing, directly or not, pinned to the versions that pip finds."""
    have, found, asked = dict(packages), dict[str, Package](), list[str]()
    while missing := {each.name: each.wanted for each in _unmet(have, python, not_needed) if not each.found}:
        if missing.keys() - found.keys():
            # By name, because pip evaluates markers for the Python that runs it.
            asked += missing.values()
            found = {each.name: each for each in _resolved([*pip, *asked])}
        for name in missing:
            have[name] = found.get(name, Package(name=name, version=_UNKNOWN, requires=()))
    return [f"{name}=={have[name].version}" for name in sorted(set(have) - set(packages))]


def _resolved(pip: Sequence[str]) -> Iterator[Package]:
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
        yield Package(
            name=canonicalize_name(about["name"]),
            version=about["version"],
            requires=about.get("requires_dist", ()),
        )


def _installed(site_packages: Path) -> Iterator[Package]:
    for path in sorted(site_packages.glob("*.dist-info/METADATA")):
        about = HeaderParser().parsestr(path.read_text(encoding="utf-8", errors="replace"))
        yield Package(
            name=canonicalize_name(about["Name"]),
            version=about["Version"],
            requires=[str(each) for each in about.get_all("Requires-Dist", ())],
        )


def _unmet(packages: Mapping[str, Package], python: str, not_needed: Collection[str]) -> list[Unmet]:
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
                found.append(
                    Unmet(
                        by=package,
                        name=name,
                        wanted=f"{name}{wanted.specifier}",
                        found=have.version if have else None,
                    )
                )
    return found


def _fits(version: str, wanted: Requirement) -> bool:
    try:
        return wanted.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return True


def _wanted(package: Package, python: str, extras: Collection[str]) -> Iterator[Requirement]:
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
