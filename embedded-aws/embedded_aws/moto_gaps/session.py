"""The boto3 session that moto itself uses to list regions and services.

moto's gap: it creates this session from the caller's AWS configuration, in several places and late. It fails
if the configuration names a profile that does not exist. An embedded AWS must not depend on the caller's
profiles.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import boto3

from embedded_aws.moto_gaps import patch

_PROFILES = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE")


@contextmanager
def without_profile() -> Iterator[None]:
    """Remove the caller's profile from this process's environment while moto is imported."""
    kept = {name: os.environ.pop(name) for name in _PROFILES if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


def install() -> None:
    """Close the gap. The environment must not name a profile."""
    import moto.core.utils
    from moto.core.base_backend import AccountSpecificBackend

    session = boto3.Session()
    # The first call caches the session.
    AccountSpecificBackend.get_session()
    patch.replace(moto.core.utils, Session=lambda: session)
