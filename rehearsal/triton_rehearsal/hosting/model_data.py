"""Model data: the unpacking of artifacts, and the download for a single model before its container starts.

The places of files below /opt/ml/model, and the names that SageMaker refuses there, are those of S3DataSource
in SageMaker's API reference, read on 2026-11-23.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from botocore.exceptions import ClientError

from triton_models.artifact import archive
from triton_models.base.errors import FleetError

_LONGEST_NAME = 255


class BadArtifactError(Exception):
    """The object is not an archive that an endpoint unpacks."""


def unpack(stream: IO[bytes], folder: Path) -> None:
    """Unpack a .tar.gz into a folder, which appears only when it is complete.

    An endpoint may accept more. SageMaker's reader is not documented, so everything on which readers disagree
    is refused here with a BadArtifactError, as `fleet check` does.
    """
    try:
        archive.unpack(stream, folder, where="the archive")
    except FleetError as error:
        found = (f"{each.what} in {each.where} [{each.rule}]" for each in itertools.islice(error.problems, 3))
        raise BadArtifactError("; ".join(found)) from error


def fetch(s3: Any, bucket: str, key: str, folder: Path) -> None:
    """Unpack an object into a folder; see `unpack`."""
    with closing(s3.get_object(Bucket=bucket, Key=key)["Body"]) as body:
        unpack(body, folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelData:
    """The model data of a container."""

    bucket: str
    key: str  # of the object, or the prefix of the keys of several
    packed: bool = True  # the object is a .tar.gz that is unpacked
    prefix: bool = False  # there may be several objects

    @property
    def url(self) -> str:
        """The S3 address."""
        return f"s3://{self.bucket}/{self.key}"


def model_data(container: Mapping[str, Any]) -> ModelData | None:
    """Return the model data of a described container; None if its image contains the model."""
    source = container.get("ModelDataSource", {}).get("S3DataSource")
    if source is not None:
        bucket, key = split(source["S3Uri"])
        packed = source["CompressionType"] == "Gzip"
        return ModelData(bucket=bucket, key=key, packed=packed, prefix=source["S3DataType"] == "S3Prefix")
    if url := container.get("ModelDataUrl"):
        bucket, key = split(url)
        return ModelData(bucket=bucket, key=key)
    return None


def split(url: str) -> tuple[str, str]:
    """Return the bucket and the key of an S3 address."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return bucket, key


def download(data: ModelData | None, folder: Path, *, s3: Any) -> None:
    """Create the folder that a container sees as /opt/ml/model."""
    if data is None:
        folder.mkdir()
        return
    try:
        if data.packed:
            fetch(s3, data.bucket, data.key, folder)
            return
        folder.mkdir()
        for key in _keys(data, s3):
            path = folder / _place(data, key)
            path.parent.mkdir(parents=True, exist_ok=True)
            s3.download_file(data.bucket, key, str(path))
    except BadArtifactError as error:
        raise FleetError.of(
            what=f"Failed to extract model data archive: {error}",
            where=data.url,
            fix="pack it with `fleet pack`",
        ) from error
    except ClientError as error:
        raise _missing(data) from error


def _keys(data: ModelData, s3: Any) -> Sequence[str]:
    if not data.prefix:
        return [data.key]
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=data.bucket, Prefix=data.key)
    keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
    if not keys:
        raise _missing(data)
    return keys


def _place(data: ModelData, key: str) -> str:
    """Return the path of an object's file below /opt/ml/model, unless SageMaker refuses a name in it."""
    place = key.removeprefix(data.key) if data.prefix else key.rpartition("/")[2]
    for name in place.split("/"):
        if not name.strip() or name in (".", "..") or "\0" in name or len(name.encode()) > _LONGEST_NAME:
            raise FleetError.of(
                what=f"the key {key!r} gives the name {name!r} below /opt/ml/model",
                where=data.url,
                why="SageMaker does not deploy such model data",
                fix="end the prefix with a slash, remove keys that end with one, and use names of at most "
                f"{_LONGEST_NAME} bytes",
            )
    return place


def _missing(data: ModelData) -> FleetError:
    return FleetError.of(
        what="Failed to download model data",
        where=data.url,
        fix="publish the model first, correct the address, or let the role passed to CreateModel download it",
    )
