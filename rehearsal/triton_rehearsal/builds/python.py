"""The python3 of a rehearsed build: as in the image, it is not a virtual environment.

It is the base interpreter of the rehearsal's own environment, so that pip can install packages for the user,
as in a deployed job. The packages in the build's requirements, and those that they require, are already
present as links to the rehearsal's own packages. Other packages of the rehearsal are not. pip does not change
the links, because they are in no folder from which it removes packages.
"""

from __future__ import annotations

import functools
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import TypeAlias

NAMES = ("python", "python3")

# The image includes pip. It also includes DALI, whose packages `make rehearse-all` installs.
_OF_THE_IMAGE = ("pip", "setuptools", "wheel", "nvidia-dali-cuda130", "nvidia-nvimgcodec-cu13", "optree")
_OF_DALI = ("astunparse", "gast", "libcst", "makefun", "nvtx")
_LITTLE = ("boto3", "protobuf")  # packages that a build installs before it first reads the declarations

_Wanted: TypeAlias = tuple[str, tuple[str, ...]]  # a package and its extras

_NAME = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[(?P<extras>[^\]]*)\])?")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")
_LIBRARY = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


def install_python(programs: Path, *, home: Path, requirements: str) -> None:
    """Put the interpreter into a folder, and its installed packages into the home of its user.

    Args:
        programs: The folder for PATH.
        home: The folder for HOME and PYTHONUSERBASE.
        requirements: The requirements of the toolkit and of the models.
    """
    programs.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        (programs / name).symlink_to(_interpreter())
    packages = home / "installed"
    packages.mkdir(parents=True)
    for path in _links(tuple(_named(requirements))):
        (packages / path.name).symlink_to(path)
    site = home / _LIBRARY
    site.mkdir(parents=True)
    (site / "installed.pth").write_text(f"{packages}\n")


def _interpreter() -> Path:
    """Return the base interpreter of this virtual environment, or this interpreter."""
    return Path(getattr(sys, "_base_executable", "") or sys.executable)


def _named(requirements: str) -> Iterator[_Wanted]:
    """Yield the packages of requirements, without versions, options and comments."""
    for line in requirements.splitlines():
        if found := _NAME.match(line):
            yield _wanted(found)


def _wanted(found: re.Match[str]) -> _Wanted:
    name = re.sub(r"[-_.]+", "-", found["name"]).lower()
    return name, tuple(sorted(each.strip() for each in (found["extras"] or "").split(",") if each.strip()))


@functools.lru_cache(maxsize=8)
def _links(wanted: tuple[_Wanted, ...]) -> tuple[Path, ...]:
    """Return the top-level files of installed packages and of their requirements."""
    always = [(name, ()) for name in (*_LITTLE, *_OF_THE_IMAGE, *_OF_DALI)]
    found = dict.fromkeys(path for each in _closure([*wanted, *always]) for path in _top(each))
    return tuple({path.name: path for path in found}.values())


def _closure(wanted: Iterable[_Wanted]) -> Iterator[metadata.Distribution]:
    """Yield the installed packages among these, and their requirements, including requested extras."""
    waiting, seen = list(wanted), set[_Wanted]()
    while waiting:
        name, extras = each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # pip gets it from an index, as in an account
        yield found
        for required in found.requires or ():
            only_with = _EXTRA.findall(required)
            if (not only_with or set(only_with) & set(extras)) and (match := _NAME.match(required)):
                waiting.append(_wanted(match))


def _top(found: metadata.Distribution) -> Iterator[Path]:
    """Yield the top-level files and folders of an installed package."""
    place = Path(str(found.locate_file("")))
    if place != Path(sysconfig.get_path("purelib")):
        return  # an editable installation, or a package of the interpreter, which it finds anyway
    for name in dict.fromkeys(file.parts[0] for file in found.files or ()):
        if name not in ("..", "__pycache__") and (place / name).exists():
            yield place / name
