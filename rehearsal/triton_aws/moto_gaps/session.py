"""The boto3 session that moto itself uses, for names of regions and services.

moto's gap: it makes that session from the caller's AWS configuration, here and there and late, and fails
where that names a profile that does not exist. An embedded AWS has nothing to do with the caller's profiles.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import boto3

from triton_aws.moto_gaps import patch

_PROFILES = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE")


@contextmanager
def without_profile() -> Iterator[None]:
    """Take the caller's profile out of this process's environment for as long as moto is being imported."""
    kept = {name: os.environ.pop(name) for name in _PROFILES if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


def install() -> None:
    """Close the gap; to be called without a profile in the environment."""
    import moto.core.utils
    from moto.core.base_backend import AccountSpecificBackend

    session = boto3.Session()
    # It is kept from its first call on.
    AccountSpecificBackend.get_session()
    patch.replace(moto.core.utils, Session=lambda: session)
