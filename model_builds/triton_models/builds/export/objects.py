"""Weights in S3: one object, or all objects under a prefix, identified by the digest of their listing."""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from triton_models.artifact.networks import side_files
from triton_models.base.errors import FleetError
from triton_models.declare.weights import SIDE_FILE, S3Weights

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_s3 import S3Client

_DIGITS = 16
_MOST_OBJECTS = 10_000

NO_SIDE_FILE = "absent"
"""The tag of an ONNX file's side file that does not exist."""


def download(weights: S3Weights, folder: Path) -> Path:
    """Download weights into an empty folder, and return the path of the object or of the folder."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    s3 = boto3.client("s3")
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
