"""Inputs of a build, as digests: a build with equal inputs need not be repeated.

The digests are the same on every machine: they cover contents and names, but not paths and times. They omit
what a declaration's code reads without declaring it (an environment variable, a file elsewhere, the network),
and the dependencies of the pinned packages.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeAlias

from triton_models.artifact.networks import side_files
from triton_models.base.errors import FleetError, Problem
from triton_models.base.files import contents, file_digest
from triton_models.builds.export.weights import unreadable
from triton_models.builds.locked import PACKAGES
from triton_models.declare.declaration import ModelDefinition
from triton_models.declare.environments import PackedEnvironment, package_name
from triton_models.declare.models import PythonModel
from triton_models.declare.reading import FORM_MARK, read_folder
from triton_models.declare.weights import (
    SIDE_FILE,
    LocalWeights,
    PackageWeights,
    S3Weights,
    Weights,
    weights_of,
)
from triton_models.facts.instances import gpu as gpu_named
from triton_models.facts.releases import release as release_named

Inputs: TypeAlias = Mapping[str, str]
"""The inputs of a build, by topic: "declaration", "tools", "packages", "release", "hardware", "weights"."""

_PACKAGE = Path(__file__).resolve().parents[1]
_DIGITS = 16

# Parts of triton_models that do not affect an artifact's bytes: they read, check, publish, use or show it.
# All other parts count, so a new one is safe by default. In the tables of releases and GPUs, only the row
# that a build uses counts.
_NOT_MAKING = (
    "__main__.py",
    "artifact/plans.py",
    "artifact/roots.py",
    "artifact/targets.py",
    "base/alarm_condition.py",
    "base/errors.py",
    "base/outcome.py",
    "base/processes.py",
    "base/suggest.py",
    "base/unix_http.py",
    "builds/inputs.py",
    "check/",
    "cli/",
    "client/",
    "declare/mistakes.py",
    "declare/searched.py",
    "deliver/",
    "facts/build_machines.py",
    "facts/containers.py",
    "facts/cost.py",
    "facts/host_amis.py",
    "facts/instances.py",
    "facts/limits.py",
    "facts/quotas.py",
    "facts/releases.py",
    "repository/",
    "spec.py",
)

# Packages in requirements.txt that only transfer models and do not affect their bytes.
_NOT_PACKAGES = frozenset({"boto3", "huggingface-hub", "tritonclient"})
# Dependencies that do affect the bytes, because they write the files.
_ALSO_PACKAGES = frozenset({"ml-dtypes", "onnx-ir", "safetensors"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The inputs of a build, except objects in S3."""

    model: str
    inputs: Inputs
    objects: tuple[str, ...] = ()


def find_inputs(
    name: str, *, release: str, gpu: str | None = None, cpu: bool = False, models: Path | None = None
) -> Found:
    """Return the inputs of a model's build, without importing frameworks.

    Only a family's list takes network requests.
    """
    (found,) = find_all(name, release=release, gpu=gpu, cpu=cpu, models=models).values()
    if not isinstance(found, Found):
        raise FleetError(found)
    return found


def find_all(
    name: str,
    *,
    release: str,
    gpu: str | None = None,
    cpu: bool = False,
    models: Path | None = None,
    only: Collection[str] = (),
) -> Mapping[str, Found | tuple[Problem, ...]]:
    """Return the inputs of a model, as `find_inputs` does, or of each member of a family, or its problems.

    Of a family, `only` selects members by `family:member`.
    """
    declared = read_folder(name.partition(FORM_MARK)[0], models)
    files = contents(declared.path.parent)
    family = declared.family
    if family is None:
        build = declared.asked(name)
        return {name: _found(build, [_plain(build)], files, release=release, gpu=gpu, cpu=cpu)}
    # A member does not change because others come and go.
    files = {path: digest for path, digest in files.items() if path != family.members}
    found: dict[str, Found | tuple[Problem, ...]] = {}
    for member in declared.members(name):
        asked = f"{family.name}{FORM_MARK}{member.name}"
        if only and asked not in only:
            continue
        try:
            build = declared.member(member)
        except FleetError as error:
            found[asked] = error.problems
        else:
            values = [_plain(build), _plain(member)]
            found[asked] = _found(build, values, files, release=release, gpu=gpu, cpu=cpu)
    return found


def _found(
    build: ModelDefinition,
    values: Sequence[Any],
    files: Mapping[str, str],
    *,
    release: str,
    gpu: str | None,
    cpu: bool,
) -> Found:
    carried = [each for model in build.models if isinstance(model, PythonModel) for each in model.packages]
    weights = weights_of(build)
    texts = sorted(_weights_text(each) for each in weights if not isinstance(each, S3Weights))
    inputs = {
        "declaration": _digest({"files": files, "values": values[0] if len(values) == 1 else values}),
        "tools": tools_digest(release=release, gpu=gpu),
        "packages": _digest(_pins_of([*_packages()[0], *carried])),
        "release": release,
        "hardware": gpu or ("cpu" if cpu else "portable"),
    }
    if texts:
        inputs["weights"] = _digest(texts)
    objects = {each.url for each in weights if isinstance(each, S3Weights)}
    objects |= {f"{url}{SIDE_FILE}" for url in objects if url.endswith(".onnx")}
    return Found(model=build.name, inputs=inputs, objects=tuple(sorted(objects)))


def with_objects(found: Found, tag: Callable[[str], str]) -> Inputs:
    """Return all inputs of a build; `tag` identifies objects, as `builds.export.objects.tag` does."""
    if not found.objects:
        return found.inputs
    known = [found.inputs.get("weights", ""), *(tag(address) for address in found.objects)]
    return {**found.inputs, "weights": _digest(known)}


@functools.cache
def tools_digest(*, release: str, gpu: str | None = None, package: Path = _PACKAGE) -> str:
    """Return the digest of the build tools for a release and a GPU."""
    sources = {
        path: digest
        for path, digest in contents(package, without=("cli/starter",)).items()
        if path.endswith(".py") and not path.startswith(_NOT_MAKING)
    }
    rows = [asdict(release_named(release)), asdict(gpu_named(gpu)) if gpu else None]
    return _digest({"sources": sources, "facts": _plain(rows)})


def _weights_text(weights: Weights) -> str:
    """Return a string that identifies weights: a commit, a version, a seed, or a digest."""
    from triton_models.builds.export.weights import described

    if isinstance(weights, LocalWeights):
        return f"{_local(Path(weights.path))} {weights.file}" if weights.file else _local(Path(weights.path))
    if not isinstance(weights, PackageWeights):
        return described(weights)
    pins = _pins_of([weights.package])
    if pins:
        return "\n".join(pins)
    try:
        return f"{weights.package}=={importlib.metadata.version(weights.package)}"
    except importlib.metadata.PackageNotFoundError:
        what = f"{weights.package} is neither in constraints.txt nor installed"
        raise unreadable(weights.package, what) from None


def _local(path: Path) -> str:
    """Return a string that identifies the content of a file or folder outside the declaration's folder.

    A missing one is not an error here; the build reports it if it needs it.
    """
    if not path.exists():
        return "absent"
    if path.is_dir():
        return _digest(contents(path))
    others = [path.with_name(name) for name in side_files(path)]
    known = [file_digest(each) for each in (path, *others) if each.exists()]
    return known[0] if len(known) == 1 else _digest(known)


def _pins_of(names: Iterable[str]) -> list[str]:
    """Return the lines of constraints.txt for some packages."""
    _, pins = _packages()
    return [line for name in sorted({_normal(name) for name in names}) for line in pins.get(name, ())]


@functools.cache
def _packages() -> tuple[frozenset[str], Mapping[str, tuple[str, ...]]]:
    """Return the packages that build artifacts, and the lines of constraints.txt by package."""
    required = {_normal(line) for line in _lines(PACKAGES / "requirements.txt")}
    pins: dict[str, tuple[str, ...]] = {}
    for line in _lines(PACKAGES / "constraints.txt"):
        name = _normal(line)
        pins[name] = (*pins.get(name, ()), line)
    return frozenset((required - _NOT_PACKAGES) | _ALSO_PACKAGES), pins


def _lines(path: Path) -> list[str]:
    """Return the requirements in a file, without comments and options."""
    if not path.is_file():
        return []
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("-")]


def _normal(requirement: str) -> str:
    """Return the normalized name of a requirement."""
    name = re.match(r"[A-Za-z0-9._-]*", requirement)
    return package_name(name[0] if name else "")


def _plain(value: Any) -> Any:
    """Return a declared value as JSON-ready data; functions by name, because their file counts as well."""
    if is_dataclass(value) and not isinstance(value, type):
        return {type(value).__name__: _fields(value)}
    if isinstance(value, functools.partial):
        return [_plain(value.func), _plain(value.args), _plain(value.keywords)]
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, str | int | float | None):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__)


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields of a declared value, without the paths of local files, whose content counts."""
    if isinstance(value, LocalWeights):
        return {}
    if isinstance(value, PackedEnvironment) and Path(value.path).is_absolute():
        return {"content": _local(Path(value.path))}
    return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def differences(old: Inputs, new: Inputs) -> tuple[str, ...]:
    """Return the topics in which the inputs of two builds differ, in a fixed order."""
    topics = dict.fromkeys([*new, *old])
    return tuple(topic for topic in topics if old.get(topic) != new.get(topic))
