"""Python packages inside an artifact, for a Python model that needs more than its image contains.

Each package is copied from the environment that builds the model, next to the model's model.py. Triton's
Python stub puts the version folder of a model on sys.path (StubSetup in pb_stub.cc of python_backend), so the
import works without further setup. This needs no conda, no download, and no archive that every load unpacks
into /tmp and never removes. The version is the one the build itself ran with.

The alternative, EXECUTION_ENV_PATH, replaces the image's entire environment. It must then include a NumPy
that matches the stub (NumPy 2 gives empty tensors before release 24.12), and it fits one Python version.
Packages next to the model keep the image's NumPy, but must load in any CPython that may serve them. A pure
Python package, or one built for the stable ABI, loads in the release's Python and in the rehearsal's from the
same bytes. A package built for a single Python version is accepted if the release has that version.

PYTHONPATH takes precedence over both. The images with DALI set it to the folder of DALI's packages, which
therefore precede those of an environment, those next to the model, and the image's others. A build job prints
the resulting NumPy: see `triton_models.deliver.verify.server.numpy_of_models`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path, PurePosixPath

from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.facts.releases import Release

PACKAGE_ABSENT = Check(id="package-absent", source=FROM_ARGUMENTS)
PACKAGE_PYTHON = Check(id="package-python", source=FROM_ARGUMENTS)

INSTALLER_FILES = frozenset({"INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_cache.json"})
"""Files that an installer adds or rewrites; they differ between installations of the same wheel."""

_PYTHON = re.compile(r"(?:cp|py)(\d)(\d*)")


def install(names: Sequence[str], *, folder: Path, release: Release) -> dict[str, str]:
    """Copy installed packages into the version folder of a model.

    Dependencies are not included: name each package that the model imports. (Including them would
    add, with `tokenizers`, a download client that tokenizing never calls.)
    """
    found = {name: _distribution(name) for name in names}
    report = Report("add_packages(...)")
    for name, installed in found.items():
        _check(report, name, installed, release)
    report.raise_if_any()
    versions = {}
    for name, installed in found.items():
        if installed is not None:  # always true, because _check reports missing packages
            for source, relative in _payload(installed):
                target = folder / relative
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
            versions[name] = installed.version
    return versions


def loads_in(tag: str, python: str) -> bool:
    """Return True if the image's Python, such as "3.12", can import a wheel with a tag of a WHEEL file."""
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


def _check(report: Report, name: str, installed: metadata.Distribution | None, release: Release) -> None:
    wheel = installed.read_text("WHEEL") if installed else None
    if installed is None or wheel is None or not installed.files:
        what = f"the package {name!r} is not installed here from a wheel"
        fix = "add it to requirements.txt in the model's folder and install that, but not as editable"
        report(PACKAGE_ABSENT, what, fix=fix, why="the artifact contains a copy of it")
        return
    tags = re.findall(r"^Tag: (\S+)$", wheel, flags=re.MULTILINE)
    if not any(loads_in(tag, release.python) for tag in tags):
        what = f"{name} {installed.version} is installed as {', '.join(tags)}"
        fix = f"build the model with Python {release.python}, as the build job does, or use a package that "
        fix += "is pure Python or built for the stable ABI"
        report(PACKAGE_PYTHON, what, fix=fix, why=f"the model would not load in release {release.name}")


def _payload(installed: metadata.Distribution) -> Iterator[tuple[Path, PurePosixPath]]:
    """Yield the files of the wheel itself, without scripts and files written after installation."""
    for file in installed.files or ():
        if ".." in file.parts or "__pycache__" in file.parts:
            continue
        if file.parts[0].endswith(".dist-info") and file.name in INSTALLER_FILES:
            continue
        yield Path(str(installed.locate_file(file))), PurePosixPath(file)
