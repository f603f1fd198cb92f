"""Python packages that travel inside an artifact, for a Python model that needs more than its image has.

A package is laid beside the model's model.py, copied from the environment that builds the model. Nothing else
is needed to import it: Triton's Python stub puts the version folder of a model on sys.path (StubSetup in
pb_stub.cc of python_backend). So there is no conda, no archive that is unpacked into /tmp at every load and
never removed, no download, and the version is the one that the build itself ran with.

EXECUTION_ENV_PATH, the other way, replaces the image's whole environment: it must then bring its own NumPy,
which has to match the stub (NumPy 2 gives empty tensors before release 24.12), and it belongs to one Python
version. With packages laid beside the model, NumPy stays the image's own, and what is copied has to load in
any CPython that may serve it: a pure Python package or one built for the stable ABI loads in the release's
Python and in the rehearsal's alike, from the same bytes. A package built for a single Python version is taken
if that is the release's.

Neither way outranks PYTHONPATH. The images with DALI set it to the folder of DALI's packages, and its
packages come before an environment's, before those next to the model, and before the image's others. A
build job prints which NumPy that gives: see `verifying.program.numpy_of_models`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path, PurePosixPath

from triton_models.base.errors import Problem, raise_if_any
from triton_models.facts.releases import Release

# What an installer adds or rewrites: it differs between two installations of one wheel.
_INSTALLER_FILES = frozenset({"INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_cache.json"})

_PYTHON = re.compile(r"(?:cp|py)(\d)(\d*)")


def install(names: Sequence[str], *, folder: Path, release: Release) -> dict[str, str]:
    """Copy installed packages into a folder.

    Their dependencies are not followed: name each package that the model imports. (Following them would
    bring in, with `tokenizers`, a download client that tokenizing never calls.)

    Args:
        names: Names of distributions, such as "tokenizers".
        folder: The version folder of a model, where model.py lies.
        release: The release whose Python must be able to import them.

    Returns:
        The installed version of each.

    Raises:
        FleetError: A package is not installed here as a wheel, or that wheel does not load in the release;
            all of them together.
    """
    found = {name: _distribution(name) for name in names}
    raise_if_any(
        problem for name, installed in found.items() for problem in _problems(name, installed, release)
    )
    versions = {}
    for name, installed in found.items():
        if installed is not None:  # _problems has refused those that are
            for source, relative in _payload(installed):
                target = folder / relative
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
            versions[name] = installed.version
    return versions


def loads_in(tag: str, python: str) -> bool:
    """Whether a wheel of that tag can be imported by the CPython of a Triton image.

    Args:
        tag: A compatibility tag as in a WHEEL file, such as "cp310-abi3-manylinux_2_17_x86_64".
        python: The image's version, such as "3.12". The images are x86-64 with glibc.
    """
    interpreters, abi, platform = tag.split("-")
    if platform != "any" and not (platform.startswith("manylinux") and platform.endswith("_x86_64")):
        return False
    major, minor = map(int, python.split("."))
    for interpreter in interpreters.split("."):
        match = _PYTHON.fullmatch(interpreter)
        if not match or int(match[1]) != major:
            continue
        oldest = int(match[2] or 0)
        if oldest <= minor if abi in {"none", "abi3"} else oldest == minor:
            return True
    return False


def _distribution(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def _problems(name: str, installed: metadata.Distribution | None, release: Release) -> Iterator[Problem]:
    where = f"add_packages(..., {name!r})"
    wheel = installed.read_text("WHEEL") if installed else None
    if installed is None or wheel is None or not installed.files:
        yield Problem(
            what=f"the package {name!r} is not installed here from a wheel",
            where=where,
            expected="a package that the build's own environment has",
            why="the artifact gets a copy of it",
            fix="add it to model_builds/requirements.txt and install that; an editable install cannot travel",
            rule="package-absent",
        )
        return
    tags = re.findall(r"^Tag: (\S+)$", wheel, flags=re.MULTILINE)
    if not any(loads_in(tag, release.python) for tag in tags):
        yield Problem(
            what=f"{name} {installed.version} is installed as {', '.join(tags)}",
            where=where,
            expected=f"a wheel that Python {release.python} on Linux x86-64 can import",
            why=f"the model would not load in release {release.name}",
            fix=f"build the model with Python {release.python}, as the build job does, or use a package that "
            "is pure Python or built for the stable ABI",
            rule="package-python",
        )


def _payload(installed: metadata.Distribution) -> Iterator[tuple[Path, PurePosixPath]]:
    """The files of the wheel itself: no scripts, nothing that the installer or the interpreter wrote."""
    for file in installed.files or ():
        if ".." in file.parts or "__pycache__" in file.parts:
            continue
        if file.parts[0].endswith(".dist-info") and file.name in _INSTALLER_FILES:
            continue
        yield Path(str(installed.locate_file(file))), PurePosixPath(file)
