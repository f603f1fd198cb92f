"""What a build depends on, as digests: equal inputs need no second build.

They are the same on every machine: contents and names enter, paths and times do not. Left out are what a
declaration's code reads without declaring it (an environment variable, a file elsewhere, the network), and
the packages that the pinned ones bring along.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from triton_models.base.digests import file_digest
from triton_models.base.errors import FleetError
from triton_models.base.source_files import contents
from triton_models.declare.declaration import ModelBuild
from triton_models.declare.environments import PackedEnvironment
from triton_models.declare.models import PythonModel
from triton_models.declare.reading import folder_of, load_build
from triton_models.declare.weights import LocalWeights, PackageWeights, S3Weights, Weights
from triton_models.facts.instances import gpu as gpu_named
from triton_models.facts.releases import release as release_named

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

Inputs: TypeAlias = Mapping[str, str]
"""What a build depends on, by topic: "declaration", "tools", "packages", "release", "hardware", "weights"."""

_PACKAGE = Path(__file__).resolve().parents[1]
_DIGITS = 16

# The parts of triton_models that have no say in an artifact's bytes: they read, check, publish, use or show.
# All others are taken to have one, so a new one is on the safe side until it is named here. Of the tables of
# releases and GPUs the one row counts that a build uses.
_NOT_MAKING = (
    "__main__.py",
    "artifact/built_for.py",
    "artifact/plans.py",
    "artifact/refusal.py",
    "artifact/targets.py",
    "base/errors.py",
    "base/outcome.py",
    "base/processes.py",
    "base/source_files.py",
    "base/suggest.py",
    "base/unix_http.py",
    "builds/inputs.py",
    "builds/merge.py",
    "check/",
    "cli/",
    "client/",
    "declare/mistakes.py",
    "declare/new.py",
    "declare/places.py",
    "declare/variables.py",
    "deliver/",
    "facts/build_machines/",
    "facts/cost.py",
    "facts/host_amis.py",
    "facts/instances.py",
    "facts/payload.py",
    "facts/prices.py",
    "facts/quota_needs.py",
    "facts/quotas.py",
    "facts/releases.py",
    "facts/shared_memory.py",
    "ledger/",
    "probe/",
    "repository/",
    "spec.py",
    "survey/",
    "verify/",
)

# Of the packages that requirements.txt names: these carry models about and have no say in their bytes.
_NOT_PACKAGES = frozenset({"boto3", "huggingface-hub", "tritonclient"})
# These come along with them, and do have one: they write the files.
_ALSO_PACKAGES = frozenset({"ml-dtypes", "onnx-ir", "safetensors"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The inputs of a build, but for the objects of S3 among them.

    Attributes:
        model: The name that the artifact is published under.
        inputs: The inputs, "weights" without the objects.
        objects: The addresses of the objects, which `with_objects` adds.
    """

    model: str
    inputs: Inputs
    objects: tuple[str, ...] = ()


def find_inputs(
    name: str,
    *,
    release: str,
    gpu: str | None = None,
    cpu: bool = False,
    models: Path | None = None,
) -> Found:
    """What the build of a model depends on, found out without a framework and without a request.

    Args:
        name: The model, or `folder:form`.
        release: As it is built for.
        gpu: As it is built for.
        cpu: As it is built for.
        models: The folder of model builds; by default the one beside this package.

    Raises:
        FleetError: There is no such model, release or GPU, its declaration has a mistake, or its
            files cannot be read.
    """
    build = load_build(name, models)
    weights = list(_weights(build))
    texts = sorted(_weights_text(each) for each in weights if not isinstance(each, S3Weights))
    inputs = {
        "declaration": _digest({"files": contents(folder_of(name, models)), "values": _plain(build)}),
        "tools": tools_digest(release=release, gpu=gpu),
        "packages": _digest(_pins_of([*_packages(_PACKAGE.parent)[0], *_carried(build)])),
        "release": release,
        "hardware": gpu or ("cpu" if cpu else "portable"),
    }
    if texts:
        inputs["weights"] = _digest(texts)
    objects = {each.url for each in weights if isinstance(each, S3Weights)}
    return Found(model=build.name, inputs=inputs, objects=tuple(sorted(objects)))


def with_objects(found: Found, tag: Callable[[str], str]) -> Inputs:
    """All inputs of a build.

    Args:
        found: What is known without a request.
        tag: Gives the entity tag of an object by its address: see `entity_tag`.

    Raises:
        FleetError: An object is not there, or cannot be read.
    """
    if not found.objects:
        return found.inputs
    known = [found.inputs.get("weights", ""), *(tag(address) for address in found.objects)]
    return {**found.inputs, "weights": _digest(known)}


def entity_tag(address: str, s3: S3Client) -> str:
    """What stands for an object's content: its entity tag, and its size.

    Another way of uploading may give the same content another tag, and a build more than would be needed;
    another content never has the same.

    Raises:
        FleetError: It is not there, or cannot be read.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    bucket, _, key = address.removeprefix("s3://").partition("/")
    try:
        answer = s3.head_object(Bucket=bucket, Key=key)
    except (BotoCoreError, ClientError) as error:
        raise _no_weights(address, str(error)) from None
    return f"{answer['ETag']} {answer['ContentLength']}"


@functools.cache
def tools_digest(*, release: str, gpu: str | None = None, package: Path = _PACKAGE) -> str:
    """The digest of what makes artifacts here, for a release and a GPU.

    Raises:
        FleetError: The release or the GPU is unknown.
    """
    sources = {
        path: digest
        for path, digest in contents(package).items()
        if path.endswith(".py") and not path.startswith(_NOT_MAKING)
    }
    rows = [asdict(release_named(release)), asdict(gpu_named(gpu)) if gpu else None]
    return _digest({"sources": sources, "facts": _plain(rows)})


def _weights(value: Any) -> Iterator[Weights]:
    """The weights in a declared value, wherever they stand."""
    if isinstance(value, Weights):
        yield value
    elif is_dataclass(value):
        for each in fields(value):
            yield from _weights(getattr(value, each.name))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _weights(each)


def _weights_text(weights: Weights) -> str:
    """What stands for the content of weights: a commit, a version, a seed, or a digest."""
    from triton_models.builds.export.weights import described

    if isinstance(weights, LocalWeights):
        return _local(Path(weights.path))
    if not isinstance(weights, PackageWeights):
        return described(weights)
    pins = _pins_of([weights.package])
    if pins:
        return "\n".join(pins)
    try:
        return f"{weights.package}=={importlib.metadata.version(weights.package)}"
    except importlib.metadata.PackageNotFoundError:
        what = f"{weights.package} is neither in constraints.txt nor installed"
        raise _no_weights(weights.package, what) from None


def _local(path: Path) -> str:
    """What stands for the content of a file or folder outside the declaration's own.

    One that is not there is no mistake yet: the build tells, if it needs it.
    """
    if not path.exists():
        return "absent"
    return _digest(contents(path)) if path.is_dir() else file_digest(path)


def _no_weights(address: str, what: str) -> FleetError:
    return FleetError.of(
        what=f"the weights cannot be looked at: {what.partition(chr(10))[0]}",
        where=f"the weights {address!r}",
        expected="weights that can be read where builds are chosen, as where they run",
        why="whether the model has changed depends on them",
        fix="check the address and the permission to read it",
        rule="weights",
    )


def _carried(build: ModelBuild) -> list[str]:
    """The packages that travel with a model."""
    return [name for model in build.models if isinstance(model, PythonModel) for name in model.packages]


def _pins_of(names: Iterable[str]) -> list[str]:
    """The lines of constraints.txt for some packages."""
    _, pins = _packages(_PACKAGE.parent)
    return [line for name in sorted({_normal(name) for name in names}) for line in pins.get(name, ())]


@functools.cache
def _packages(folder: Path) -> tuple[frozenset[str], Mapping[str, tuple[str, ...]]]:
    """The packages that make artifacts, and the lines of constraints.txt by package."""
    required = {_normal(line) for line in _lines(folder / "requirements.txt")}
    pins: dict[str, tuple[str, ...]] = {}
    for line in _lines(folder / "constraints.txt"):
        name = _normal(line)
        pins[name] = (*pins.get(name, ()), line)
    return frozenset((required - _NOT_PACKAGES) | _ALSO_PACKAGES), pins


def _lines(path: Path) -> list[str]:
    """The requirements in a file, without comments and options."""
    if not path.is_file():
        return []
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("-")]


def _normal(requirement: str) -> str:
    """The name of a requirement, as PEP 503 spells it."""
    name = re.match(r"[A-Za-z0-9._-]*", requirement)
    return re.sub(r"[-_.]+", "-", name[0] if name else "").lower()


def _plain(value: Any) -> Any:
    """A declared value as JSON-ready data; functions by their names, for their code is in a file."""
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
    """The fields of a declared value. Where a local file lies is left out: its content counts."""
    if isinstance(value, LocalWeights):
        return {}
    if isinstance(value, PackedEnvironment) and Path(value.path).is_absolute():
        return {"content": _local(Path(value.path))}
    return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def differences(old: Inputs, new: Inputs) -> tuple[str, ...]:
    """The topics in which two builds' inputs differ, in a fixed order."""
    topics = dict.fromkeys([*new, *old])
    return tuple(topic for topic in topics if old.get(topic) != new.get(topic))
