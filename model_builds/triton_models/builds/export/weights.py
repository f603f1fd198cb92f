"""Downloading the declared weights, and loading them into a PyTorch network.

In S3 they are one object, or all objects under a prefix, identified by the digest of their listing.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.metadata
import importlib.util
import pickle
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from triton_models.artifact.archive import WEIGHTS, ZIPPED_WEIGHTS, unpack
from triton_models.artifact.networks import side_files
from triton_models.base.errors import FleetError
from triton_models.base.suggest import did_you_mean, some_of
from triton_models.builds.export.wrapped_weights import entry_of, renamed
from triton_models.declare.weights import (
    SIDE_FILE,
    HubWeights,
    LocalWeights,
    PackageWeights,
    RandomWeights,
    RegistryWeights,
    S3Weights,
    Weights,
    is_archive,
)

if TYPE_CHECKING:
    import torch
    from mypy_boto3_s3 import S3Client

FETCHED: dict[str, Path] = {}
"""The weights that this process, or a copy of it, has fetched and unpacked, by their description."""

_UNPACKED = (
    "declare the unpacked folder, or the prefix in S3, instead of the archive; or pack plain files again, "
    "such as with `tar --dereference --hard-dereference -czf`"
)

_SPREAD = 0.1

# Copies of the weights for other frameworks, which many hub repositories include: gigabytes.
_FOR_OTHERS = ["*.h5", "*.msgpack", "*.ot", "*.tflite", "coreml/*", "onnx/*", "openvino/*"]


def load_weights(module: torch.nn.Module, weights: Weights) -> None:
    """Load every parameter and buffer of a network.

    Args:
        module: The network.
        weights: A state_dict written by `torch.save`, a .safetensors file, or random weights, which set only
            parameters.

    Raises:
        FleetError: The file is unavailable, has no state_dict, or has that of another network.
    """
    if isinstance(weights, RandomWeights):
        _draw(module, weights.seed)
        return
    source = address_of(weights)
    state = _read(fetch(weights), source)
    _compare(module.state_dict(), state, source)
    module.load_state_dict(dict(state))


def _draw(module: torch.nn.Module, seed: int) -> None:
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.uniform_(-_SPREAD, _SPREAD, generator=generator)


def fetch(weights: Weights) -> Path:
    """Return the local file or folder of weights, downloaded and unpacked at most once per process.

    The side file of an ONNX file lies next to it.

    Raises:
        FleetError: The weights are unavailable.
    """
    if isinstance(weights, RandomWeights):
        return Path()
    found = _once(weights) if isinstance(weights, HubWeights | PackageWeights) else _file_of(weights)
    _refuse_missing(found)
    return found


def _file_of(weights: LocalWeights | S3Weights | RegistryWeights) -> Path:
    """Return the folder of weights or a file in it; many models may have their files in one archive."""
    if isinstance(weights, LocalWeights) and not is_archive(weights.path):
        found = Path(weights.path)
    else:
        found = _once(replace(weights, file=None))
    return found if weights.file is None else _member(found, weights.file, address_of(weights))


def _once(weights: Weights) -> Path:
    key = repr(weights)  # lists in them have no hash
    if key not in FETCHED:
        FETCHED[key] = _fetched(weights)
    return FETCHED[key]


def described(weights: Weights) -> str:
    """Describe weights for build.json without paths and times; equal weights give equal descriptions.

    Raises:
        FleetError: The weights are unavailable.
    """
    if isinstance(weights, RandomWeights):
        return f"untrained, seed {weights.seed}"
    if isinstance(weights, HubWeights):
        return f"{weights.id}@{weights.revision}"
    if isinstance(weights, RegistryWeights):
        return weights.id
    if isinstance(weights, PackageWeights):
        return f"{weights.package} {importlib.metadata.version(weights.package)}"
    try:
        return f"sha256:{_digest(fetch(weights))}"
    except OSError as error:
        raise unusable(address_of(weights), error.strerror or str(error)) from error


def _digest(path: Path) -> str:
    """Return the digest of a file, or of the names and contents of all files in a folder."""
    digest = hashlib.sha256()
    folder = path if path.is_dir() else path.parent
    together = [path, *(folder / name for name in side_files(path))]
    for each in sorted(path.rglob("*")) if path.is_dir() else together:
        if each != path:
            digest.update(f"{each.relative_to(folder).as_posix()}\0".encode())
        if each == path or each.is_file():
            with each.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()


def _fetched(weights: Weights) -> Path:
    if isinstance(weights, PackageWeights):
        return _installed(weights)
    if isinstance(weights, HubWeights):
        return _from_hub(weights)
    if isinstance(weights, RegistryWeights):
        return _from_registry(weights)
    if isinstance(weights, S3Weights):
        path = download(weights, _temporary())
        return _unpacked(path, weights.url) if is_archive(weights.url) else path
    if isinstance(weights, LocalWeights):
        return _unpacked(Path(weights.path), weights.path)
    raise AssertionError(weights)


def _installed(weights: PackageWeights) -> Path:
    """Return a folder of an installed package without importing the package."""
    spec = importlib.util.find_spec(weights.package)
    if spec is None or spec.origin is None:
        raise FleetError.of(
            what=f"the package {weights.package} is not installed",
            where=f"the weights {address_of(weights)!r}",
            fix="run python -m triton_models.builds.locked build",
            rule="weights",
        )
    return Path(spec.origin).parent / weights.folder


def _from_hub(weights: HubWeights) -> Path:
    from huggingface_hub import hf_hub_download, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        if weights.file is None:
            wanted = list(weights.files) or None
            folder = snapshot_download(
                weights.id,
                revision=weights.revision,
                allow_patterns=wanted,
                ignore_patterns=None if wanted else _FOR_OTHERS,
            )
            return Path(folder)
        return Path(hf_hub_download(weights.id, weights.file, revision=weights.revision))
    except (HfHubHTTPError, OSError, ValueError) as error:
        first_line = str(error).strip().partition("\n")[0]
        raise unusable(address_of(weights), f"the download failed: {first_line}") from error


def _from_registry(weights: RegistryWeights) -> Path:
    try:
        path = Path(weights.fetch(_temporary()))
    except Exception as error:
        said = str(error).partition("\n")[0]
        raise unusable(weights.id, f"fetch() failed: {type(error).__name__}: {said}") from error
    if not path.exists():
        raise unusable(weights.id, f"fetch() returned {str(path)!r}, which does not exist")
    return _unpacked(path, weights.id) if is_archive(path.name) else path


def _unpacked(archive: Path, source: str) -> Path:
    """Unpack an archive into a new folder, and return its only folder or the folder itself."""
    folder = _temporary() / "weights"
    limits = ZIPPED_WEIGHTS if archive.name.endswith(".zip") else WEIGHTS
    try:
        with archive.open("rb") as content:
            unpack(content, folder, where=f"the weights {source!r}", executables=False, limits=limits)
    except OSError as error:
        raise unusable(source, f"the archive cannot be unpacked: {error}") from error
    except FleetError as error:
        raise FleetError(replace(each, fix=_UNPACKED) for each in error.problems) from None
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def _member(folder: Path, name: str, source: str) -> Path:
    path = folder / name
    if not path.is_file() or not path.resolve().is_relative_to(folder.resolve()):
        known = sorted(each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file())
        fix = did_you_mean(name, known, otherwise=f"choose one of {some_of(known)}")
        raise FleetError.of(
            what=f"there is no file {name!r}", where=f"the weights {source!r}", fix=fix, rule="weights"
        )
    return path


def _temporary() -> Path:
    """Return a new folder, which is removed when the process ends."""
    folder = tempfile.mkdtemp(prefix="fleet-weights-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _refuse_missing(path: Path) -> None:
    """Refuse an ONNX file whose weights are in a file that is not there."""
    for name in _side_file(path):
        if not (path.parent / name).is_file():
            raise FleetError.of(
                what=f"{path.name} keeps its weights in {name}, which is missing",
                where=str(path.parent),
                why="PyTorch's exporter writes two files, and neither is of use alone",
                fix=f"copy {name} there as well, or export with external_data=False",
                rule="weights",
            )


def _side_file(path: Path) -> tuple[str, ...]:
    """Return the name of an ONNX file's side file, if it has one."""
    names = side_files(path)
    if len(names) > 1 or any(Path(name).name != name for name in names):
        raise FleetError.of(
            what=f"{path.name} keeps its weights in {', '.join(names)}",
            where=str(path.parent),
            why="the build fetches one file next to the network",
            fix="save it again with onnx.save_model(..., save_as_external_data=True, location=NAME)",
            rule="weights",
        )
    return names


def address_of(weights: Weights) -> str:
    """Return the address of weights, for errors."""
    if isinstance(weights, S3Weights):
        return weights.url
    if isinstance(weights, LocalWeights):
        return weights.path
    if isinstance(weights, RegistryWeights):
        return weights.id
    return str(weights)


def _read(path: Path, source: str) -> Mapping[str, torch.Tensor]:
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise unusable(source, error.strerror or str(error)) from error
    except pickle.UnpicklingError as error:
        what = f"not a file of weights: {str(error).partition(chr(10))[0]}"
        fix = "save the state_dict alone, without the module, its settings or an optimizer: "
        raise unusable(source, what, f"{fix}torch.save(network.state_dict(), PATH)") from error
    except (RuntimeError, ValueError, EOFError, SafetensorError) as error:
        raise unusable(source, f"not a file of weights: {str(error).partition(chr(10))[0]}") from error
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        entry = entry_of(state, torch.Tensor) if isinstance(state, dict) else None
        raise unusable(source, *entry) if entry else unusable(source, "it must contain tensors by name")
    return state


def _compare(expected: Mapping[str, torch.Tensor], given: Mapping[str, torch.Tensor], source: str) -> None:
    shapes = {
        name: (tuple(given[name].shape), tuple(expected[name].shape))
        for name in expected
        if name in given and given[name].shape != expected[name].shape
    }
    differences = [
        *(f"{name} is missing" for name in expected if name not in given),
        *(f"{name} is not in the network" for name in given if name not in expected),
        *(f"{name} is {have}, not {want}" for name, (have, want) in shapes.items()),
    ]
    wrapped = renamed(expected, given, safetensors=source.endswith(".safetensors"))
    if wrapped is not None:
        raise unusable(source, *wrapped)
    if differences:
        raise unusable(source, f"weights of another network: {some_of(differences)}")


def unusable(source: str, what: str, fix: str = "") -> FleetError:
    """Return the error of weights that a network cannot load."""
    return FleetError.of(
        what=what,
        where=f"the weights {source!r}",
        fix=fix or "check the path, the permission to read it, and that it was saved from the same network",
        rule="weights",
    )


_DIGITS = 16
_MOST_OBJECTS = 10_000

NO_SIDE_FILE = "absent"
"""The tag of an ONNX file's side file that does not exist."""


def download(weights: S3Weights, folder: Path) -> Path:
    """Download weights into an empty folder, and return the path of the object or of the folder."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    s3 = boto3.Session().client("s3")  # a session of its own, as the default one keeps its first credentials
    bucket, _, key = _parts(weights.url)
    try:
        before = _listing(weights.url, s3)
        if weights.digest is not None and weights.digest != digest(before):
            raise _changed(
                weights.url,
                f"the objects have the digest {digest(before)}, not {weights.digest}",
                why="an object was added, removed or written again since",
                fix=f'if they are right, write digest="{digest(before)}"; otherwise restore them',
            )
        for name in before:
            path = _place(folder, name, weights.url)
            path.parent.mkdir(parents=True, exist_ok=True)
            s3.download_file(bucket, f"{key}{name}" if weights.is_prefix else key, str(path))
        if weights.is_prefix:
            if digest(_listing(weights.url, s3)) != digest(before):
                raise _changed(
                    weights.url,
                    "the objects changed while they were read",
                    why="a mixture of two checkpoints would be built",
                    fix="build again when the upload has ended; write each checkpoint under its own prefix",
                )
            return folder
        (name,) = before
        for side in side_files(folder / name):
            s3.download_file(bucket, f"{key}{SIDE_FILE}", str(folder / Path(side).name))
    except (BotoCoreError, ClientError, ValueError) as error:
        raise unreadable(weights.url, f"the download failed: {error}") from error
    return folder / name


def tag(address: str, s3: S3Client) -> str:
    """Return a string that identifies the content of an object, or of all objects under a prefix.

    Different content never has the same tag. Equal content uploaded in another way may have another tag,
    which only causes an unnecessary build. A missing side file is "absent".
    """
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        listing = _listing(address, s3)
    except (BotoCoreError, ClientError) as error:
        if address.endswith(f".onnx{SIDE_FILE}"):
            return NO_SIDE_FILE
        raise unreadable(address, str(error)) from None
    return digest(listing) if address.endswith("/") else next(iter(listing.values()))


def tags_below(folder: str, addresses: Sequence[str], s3: S3Client) -> dict[str, str]:
    """Return the tags of many addresses below a folder by listing it once; those that do not exist lack."""
    from botocore.exceptions import BotoCoreError, ClientError

    bucket, _, key = _parts(folder)
    content: dict[str, dict[str, str]] = {}
    wanted = set(addresses)
    try:
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=key):
            for each in page.get("Contents", ()):
                inner, mark, rest = each["Key"].removeprefix(key).partition("/")
                address = f"{folder}{inner}{mark}"
                if address in wanted and (rest or not mark):
                    content.setdefault(address, {})[rest] = f"{each['ETag']} {each['Size']}"
    except (BotoCoreError, ClientError) as error:
        raise unreadable(folder, str(error)) from None
    return {
        address: digest(found) if address.endswith("/") else found[""] for address, found in content.items()
    }


def digest(listing: Mapping[str, str]) -> str:
    """Return the digest of a listing: of the names, with their ETags and sizes."""
    text = "\n".join(f"{name} {listing[name]}" for name in sorted(listing))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def unreadable(address: str, what: str) -> FleetError:
    """Return the error for weights that cannot be read."""
    return FleetError.of(
        what=f"the weights cannot be read: {what.partition(chr(10))[0]}",
        where=f"the weights {address!r}",
        why="they determine the model, and whether it has changed",
        fix="check the address and the permission to read it",
        rule="weights",
    )


def _listing(address: str, s3: S3Client) -> dict[str, str]:
    """Return the ETag and size of each object by its name: the end of its key."""
    bucket, _, key = _parts(address)
    if not address.endswith("/"):
        answer = s3.head_object(Bucket=bucket, Key=key)
        return {PurePosixPath(key).name: f"{answer['ETag']} {answer['ContentLength']}"}
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=key)
    found = {
        each["Key"].removeprefix(key): f"{each['ETag']} {each['Size']}"
        for page in pages
        for each in page.get("Contents", ())
        if not each["Key"].endswith("/")  # the console creates these for folders
    }
    if not found:
        raise unreadable(address, "there is no object under the prefix")
    if len(found) > _MOST_OBJECTS:
        raise unreadable(
            address, f"there are {len(found)} objects under the prefix, more than {_MOST_OBJECTS}"
        )
    return found


def _parts(address: str) -> tuple[str, str, str]:
    return address.removeprefix("s3://").partition("/")


def _place(folder: Path, name: str, address: str) -> Path:
    """Return the path of an object in the folder."""
    if ".." in PurePosixPath(name).parts or name.startswith("/"):
        raise unreadable(address, f"the key {name!r} leads out of the folder of the weights")
    return folder / name


def _changed(address: str, what: str, *, why: str, fix: str) -> FleetError:
    where = f"the weights {address!r}"
    return FleetError.of(what=what, where=where, why=why, fix=fix, rule="weights-changed")
