"""Requirements of a build, checked before it starts: Python modules, and backends of the release."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.errors import Problem, raise_if_any
from triton_models.declare.declaration import ModelDefinition
from triton_models.declare.models import Ensemble, Forest
from triton_models.facts.releases import REMOVED_BACKENDS, Release

BUILD_REQUIRES = Check(id="build-requires", source=FROM_ARGUMENTS)
BACKEND_REMOVED = Check(id="backend-removed", source="triton_models.facts.releases")
FOREST_RELEASE = Check(id="forest-release", source="triton_models.facts.releases")

# Folders of modules that only the Triton images have. Their DALI backend includes the DALI wheel that it is
# built with (src/dali_executor/CMakeLists.txt of dali_backend, since r24.05), and NVIDIA's images have the
# folder on PYTHONPATH (build.py of triton-inference-server/server). Read 2026-11-21.
IMAGE_MODULES: Mapping[str, Path] = {"nvidia.dali": Path("/opt/tritonserver/backends/dali/wheel/dali")}

# The first release whose image has the folder: dali_backend at r24.03 does not create it (read 2026-11-22).
IMAGE_MODULES_SINCE: Mapping[str, str] = {"nvidia.dali": "24.05"}

REQUIREMENTS = "requirements.txt"
"""The file with the packages that a model's build and reference need, in the folder of its declaration."""

_INSTALL = {
    "lightgbm": "add lightgbm to the requirements.txt of the model, and install that with pip",
    "nvidia.dali": "python -m triton_models.builds.locked dali; the Triton images have it",
    "xgboost": "add xgboost-cpu to the requirements.txt of the model, and install that with pip",
}


def brings(release: Release, module: str) -> bool:
    """Return True if the image of a release has a module of `IMAGE_MODULES`."""
    return release.name >= IMAGE_MODULES_SINCE[module]


def install_command(folder: Path | None, *, otherwise: str) -> str:
    """Return the command that installs the requirements.txt in a model's folder; `otherwise` without one."""
    if folder is None or not (folder / REQUIREMENTS).is_file():
        return otherwise
    own = folder / REQUIREMENTS
    with suppress(ValueError):
        own = own.resolve().relative_to(Path.cwd())
    return f"pip install -r {own}"


def check_requires(
    modules: Sequence[str], *, release: Release | None = None, folder: Path | None = None
) -> None:
    """Check that modules can be imported, and make those that only the image has importable.

    A folder is that of a reference, whose requirements.txt may name them.
    """
    raise_if_any(
        BUILD_REQUIRES.problem(
            what=f"{module} is not installed here",
            where="`requires` of the declaration" if folder is None else "the model's reference",
            why="the model's build or its reference imports it",
            fix=install_command(folder, otherwise=_way_to(module, release)),
        )
        for module in missing(modules)
    )


def _way_to(module: str, release: Release | None) -> str:
    if release is not None and module in IMAGE_MODULES_SINCE and not brings(release, module):
        since = IMAGE_MODULES_SINCE[module]
        return f"build for release {since} or newer: the image of {release.name} does not have it"
    return _INSTALL.get(module, f"install the package that has {module}")


def missing(modules: Iterable[str]) -> list[str]:
    """Return the modules that cannot be imported here."""
    return [module for module in modules if not _found(module)]


def check_backends(build: ModelDefinition, release: Release) -> None:
    """Check that the release has the backend of every model, and that the backend reads what builds write."""
    problems: list[Problem] = []
    for model in build.models:
        report = Report(f"the backend of {model.name!r}")
        backend = None if isinstance(model, Ensemble) else model.backend
        removed = REMOVED_BACKENDS.get(backend.backend) if backend else None
        if backend and removed is not None and release.name >= removed:
            what = f"{model.name!r} needs the backend {backend.backend!r}, for release {release.name}"
            why = f"release {removed} removed the backend"
            fix = f"use a release before {removed}, or export it to ONNX: OnnxRuntime() or TensorRt()"
            report(BACKEND_REMOVED, what, fix=fix, why=why)
        if isinstance(model, Forest) and release.treelite < (4, 0):
            what = f"{model.name!r} is a forest, for release {release.name}"
            why = "older releases do not read the checkpoints of Treelite 4 that builds write"
            report(FOREST_RELEASE, what, fix="choose release 24.03 or newer", why=why)
        problems += report.problems
    raise_if_any(problems)


def _found(module: str) -> bool:
    try:
        if importlib.util.find_spec(module) is not None:
            return True
    except ModuleNotFoundError:  # its parent package is missing too
        pass
    place = IMAGE_MODULES.get(module)
    if place is None or not place.is_dir() or str(place) in sys.path:
        return False
    sys.path.append(str(place))  # last, because it also has packages that the build has in other versions
    importlib.invalidate_caches()
    return _found(module) or _found_beside(module, place)


def _found_beside(module: str, place: Path) -> bool:
    """Find a module whose parent package comes from another distribution, the only place Python looks in."""
    parent, _, _ = module.rpartition(".")
    if not parent:
        return False
    importlib.import_module(parent).__path__.append(str(place.joinpath(*parent.split("."))))
    return importlib.util.find_spec(module) is not None
