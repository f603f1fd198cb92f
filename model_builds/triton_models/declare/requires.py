"""The needs of a build before it starts: Python modules beyond requirements.txt, and existing backends."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from triton_models.base.errors import Problem, raise_if_any
from triton_models.declare.declaration import ModelDefinition
from triton_models.declare.models import Ensemble
from triton_models.facts.releases import REMOVED_BACKENDS, Release

# Where the Triton images have a module that is in no environment. Their DALI backend carries the wheel of
# DALI that it is built with (src/dali_executor/CMakeLists.txt of dali_backend, from r24.05 on), and NVIDIA's
# images have the folder on PYTHONPATH (build.py of triton-inference-server/server). Read 2026-11-21.
IMAGE_MODULES: Mapping[str, Path] = MappingProxyType(
    {"nvidia.dali": Path("/opt/tritonserver/backends/dali/wheel/dali")}
)

# The first release whose image has the folder: dali_backend at r24.03 makes none (read 2026-11-22).
IMAGE_MODULES_SINCE: Mapping[str, str] = MappingProxyType({"nvidia.dali": "24.05"})

_DALI_LOCK = "model_builds/locks/requirements-dali.txt"
_INSTALL = MappingProxyType(
    {"nvidia.dali": f"pip install --no-deps -r {_DALI_LOCK}; the Triton images have it"}
)


def brings(release: Release, module: str) -> bool:
    """Return whether the image of a release has a module of `IMAGE_MODULES`."""
    return release.name >= IMAGE_MODULES_SINCE[module]


def check_requires(modules: Sequence[str], *, release: Release | None = None) -> None:
    """See that modules can be imported; those that only the image has become importable.

    Args:
        modules: Their names.
        release: The release that is built for; None if that does not matter.

    Raises:
        FleetError: What is missing, and how to get it.
    """
    raise_if_any(
        Problem(
            what=f"the Python module {module} is not installed",
            where="`requires` of the declaration",
            expected="what requirements.txt has and, for this model, what it requires beyond that",
            why="its build or its reference imports it",
            fix=_way_to(module, release),
            rule="build-requires",
        )
        for module in missing(modules)
    )


def _way_to(module: str, release: Release | None) -> str:
    """Return the command that installs a module."""
    if release is not None and module in IMAGE_MODULES_SINCE and not brings(release, module):
        since = IMAGE_MODULES_SINCE[module]
        return f"build for release {since} or newer, whose image has it; that of {release.name} has not"
    return _INSTALL.get(module, f"install the package that has {module}")


def missing(modules: Iterable[str]) -> list[str]:
    """Those of some modules that cannot be imported here."""
    return [module for module in modules if not _found(module)]


def check_backends(build: ModelDefinition, release: Release) -> None:
    """See that the release has the backend of every model.

    Raises:
        FleetError: Each that it has not.
    """
    raise_if_any(_removed(build, release))


def _removed(build: ModelDefinition, release: Release) -> Iterator[Problem]:
    for model in build.models:
        backend = "" if isinstance(model, Ensemble) else model.backend.backend
        removed = REMOVED_BACKENDS.get(backend)
        if removed is not None and release.name >= removed:
            yield Problem(
                what=f"{model.name!r} needs the backend {backend!r}, for release {release.name}",
                where=f"the backend of {model.name!r}",
                expected=f"a release before {removed} (--release), or another backend",
                why=f"release {removed} removed the backend",
                fix="export the network to ONNX and run it with OnnxRuntime() or TensorRt()",
                rule="backend-removed",
            )


def _found(module: str) -> bool:
    try:
        if importlib.util.find_spec(module) is not None:
            return True
    except ModuleNotFoundError:  # its parent is not there either
        pass
    place = IMAGE_MODULES.get(module)
    if place is None or not place.is_dir() or str(place) in sys.path:
        return False
    sys.path.append(str(place))  # last: it brings packages that the build has in versions of its own
    importlib.invalidate_caches()
    return _found(module) or _found_beside(module, place)


def _found_beside(module: str, place: Path) -> bool:
    """Another distribution may have the parent package, and then Python looks for the module only there."""
    parent, _, _ = module.rpartition(".")
    if not parent:
        return False
    importlib.import_module(parent).__path__.append(str(place.joinpath(*parent.split("."))))
    return importlib.util.find_spec(module) is not None
