"""The manifest in S3: it is read with its ETag, and replaced only if it has not changed since."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from triton_models.base.errors import raise_if_any
from triton_models.repository.manifest import MANIFEST_NAME, Manifest, Repository
from triton_models.repository.objects import Store
from triton_models.repository.s3 import LOST_RACE, NOT_FOUND, S3Client, aws_errors, contended, error_code

# Every lost round means that another writer succeeded, so this many losses are not a coincidence.
ROUNDS = 50

# The time for which a client may use a manifest, in seconds.
MANIFEST_AGE_S = 30.0

_NOT_MODIFIED = frozenset({"304", "NotModified"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredManifest:
    """A manifest with its version in S3.

    Attributes:
        manifest: The manifest; empty if there is none yet.
        tag: Its ETag; None if there is none yet.
        at: The time of reading by S3's clock, because this machine's clock may be wrong.
    """

    manifest: Manifest
    tag: str | None
    at: datetime


def read_manifest(repository: Repository, *, s3: S3Client) -> Manifest:
    """Read a repository's manifest, which is empty before the first publication."""
    with aws_errors(repository.url):
        return read(Store(repository, s3)).manifest


def read(
    store: Store, *, known: StoredManifest | None = None, parse: Callable[..., Manifest] = Manifest.from_json
) -> StoredManifest:
    """Read the manifest with its ETag; one that is known is not sent again unless it has changed."""
    from botocore.exceptions import ClientError

    where = store.repository.manifest_url
    unless = {"IfNoneMatch": known.tag} if known is not None and known.tag else {}
    try:
        answer, document = store.read(MANIFEST_NAME, lambda body: body.read(), **unless)
    except ClientError as error:
        if known is not None and error_code(error) in _NOT_MODIFIED:
            return replace(known, at=_date(error.response))
        if error_code(error) in NOT_FOUND:
            return StoredManifest(manifest=Manifest(where=where), tag=None, at=_date(error.response))
        raise
    return StoredManifest(manifest=parse(document, where=where), tag=answer["ETag"], at=_date(answer))


def update(
    change: Callable[[StoredManifest], Manifest], store: Store, *, stored: StoredManifest | None = None
) -> StoredManifest:
    """Replace the manifest with a changed one, and return the one before.

    `change` returns the same manifest for no change. It is called again with the new one if another writer
    was faster.

    Raises:
        FleetError: Other writers were always faster, or a changed record is one that readers would refuse.
    """
    for _ in range(ROUNDS):
        stored = stored or read(store)
        new = change(stored)
        if new == stored.manifest or _replaced(stored, new, store):
            return stored
        stored = None
    raise contended(store.repository.manifest_url)


def _replaced(stored: StoredManifest, new: Manifest, store: Store) -> bool:
    """Replace the manifest that was read; return False if it has changed meanwhile."""
    from botocore.exceptions import ClientError

    raise_if_any(new.unreadable(before=stored.manifest))
    only: Any = {"IfNoneMatch": "*"} if stored.tag is None else {"IfMatch": stored.tag}
    body = new.to_json().encode()
    try:
        store.s3.put_object(**store.at(MANIFEST_NAME), Body=body, ContentType="application/json", **only)
    except ClientError as error:
        if error_code(error) in LOST_RACE | NOT_FOUND:
            return False
        raise
    return True


def _date(answer: Any) -> datetime:
    said = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    moment = parsedate_to_datetime(said) if said else datetime.now(timezone.utc)
    return moment.astimezone(timezone.utc)
